"""Groups of commands whose own call lists something."""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand, TyperGroup

__all__ = ["ListingGroup"]

_LIST = "list"


class ListingGroup(TyperGroup):
    """A group that lists where no command is named. `interlock turns list` is the same as `interlock turns`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, `list` first."""
        return [_LIST, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name. `list` is only described, because `parse_args` leaves it out."""
        if cmd_name == _LIST:
            return TyperCommand(_LIST, help=inspect.getdoc(self.callback), add_help_option=False)
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave out the word `list`, which people try first."""
        return super().parse_args(ctx, args[1:] if args[:1] == [_LIST] else args)
