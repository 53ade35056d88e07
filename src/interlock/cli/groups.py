"""Groups of commands whose own call lists something."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["ListingGroup"]


class ListingGroup(TyperGroup):
    """A group that lists where no command is named. `interlock turns list` is the same as `interlock turns`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave out the word `list`, which people try first."""
        return super().parse_args(ctx, args[1:] if args[:1] == ["list"] else args)
