"""Paths as workers write them: absolute, with the scope's folder as the root."""

from __future__ import annotations

from interlock_agents.gateway.errors import PathDenied

__all__ = ["can_be_asked_for", "parts", "shown"]

_NAME_BYTES = 255
_PATH_BYTES = 4000
_DEPTH = 128
_SHOWN = 80


def parts(path: str) -> tuple[str, ...]:
    """Split a path into names. The root has none.

    Nothing is decoded, expanded or normalised: `%2e%2e`, full-width dots and `report..final.md` are ordinary names.
    """
    if len(path) > _PATH_BYTES:
        raise PathDenied(f"The path {shown(path)} is too long.")
    names = tuple(name for name in path.split("/") if name not in {"", "."})
    if ".." in names:
        raise PathDenied(f"The path {shown(path)} has '..' in it. Paths begin at '/' and go down only.")
    if names and names[0].startswith("~"):
        raise PathDenied(f"The path {shown(path)} begins with '~'. There are no home folders here; paths begin at '/'.")
    if len(names) > _DEPTH:
        raise PathDenied(f"The path {shown(path)} is more than {_DEPTH} folders deep.")
    if "\0" in path or "\\" in path:
        raise PathDenied(f"The path {shown(path)} has a NUL or a backslash in it.")
    try:
        if len(path.encode()) > _PATH_BYTES or any(len(name.encode()) > _NAME_BYTES for name in names):
            raise PathDenied(f"The path {shown(path)} is too long, or has a name of more than {_NAME_BYTES} bytes.")
    except UnicodeEncodeError:
        raise PathDenied(f"The path {shown(path)} is not valid text.") from None
    return names


def can_be_asked_for(path: str) -> bool:
    """Return whether a worker can name this path. A name on disk may not be valid text, for example."""
    return "\\" not in path and not path.startswith("/~") and not any("\ud800" <= letter <= "\udfff" for letter in path)


def shown(path: str) -> str:
    """Return a path for a message: in quotes, on one line, and shortened."""
    cut = path if len(path) <= _SHOWN else f"{path[: _SHOWN - 3]}..."
    return "'" + "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut) + "'"
