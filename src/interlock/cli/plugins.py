"""Commands that packages add to `interlock` by entry points. A command is imported when it is used.

[project.entry-points."interlock.commands"]
graphs = "my_shop.cli:graphs"
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from interlock.cli.screen import print_error

__all__ = ["PluginGroup"]

_GROUP = "interlock.commands"


class PluginGroup(TyperGroup):
    """The commands of Interlock and those of entry points. A command of Interlock wins over one of the same name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        own = super().list_commands(ctx)
        return [*own, *sorted(importlib.metadata.entry_points(group=_GROUP).names.difference(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name. A command of an entry point is imported."""
        own = super().get_command(ctx, cmd_name)
        points = () if own is not None else importlib.metadata.entry_points(group=_GROUP, name=cmd_name)
        return _command(cmd_name, next(iter(points))) if points else own


def _command(name: str, point: importlib.metadata.EntryPoint) -> Any:
    """Create a command from an entry point: a group of commands from a Typer application, or one command from a function."""
    try:
        loaded = point.load()
    except Exception as error:  # noqa: BLE001 - a package that cannot be imported must not break the other commands
        loaded = _broken(f"Command '{name}' cannot be loaded from '{point.value}': {type(error).__name__}: {error}.")
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(rich_markup_mode=None, add_completion=False)
        loaded.command(name=name)(function)
    command = get_command(loaded)
    command.name = name
    return command


def _broken(why: str) -> Any:
    def broken() -> None:
        print_error(why)
        raise typer.Exit(code=2)

    broken.__doc__ = why
    return broken
