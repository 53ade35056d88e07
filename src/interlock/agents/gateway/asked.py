"""How the offline rules read what a worker is asked to do with files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Asked", "read_task"]

Kind = Literal["list", "read", "search", "find", "write", "edit", "delete", "question"]

_QUOTED = r"(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`)"
_PATH = re.compile(
    r"(?<![\w/.])(?:/[^\s\"'`,;!?()]*|(?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:md|txt|env|csv|json|toml|ya?ml|log|py)\b|\.\.?/[^\s\"'`,;!?()]*)"
)
_WRITE = re.compile(rf"(?is)\b(?:write|put|save|add)\s+{_QUOTED}\s+(?:in)?to\b")
_CREATE = re.compile(rf"(?is)\b(?:create|make|write)\b.*?\bwith\s+{_QUOTED}")
_EDIT = re.compile(rf"(?is)\b(?:replace|change)\s+{_QUOTED}\s+(?:with|by|to|into)\s+{_QUOTED}")
_DELETE = re.compile(r"(?i)\b(?:delete|remove|erase|rm)\b")
_SEARCH = re.compile(rf"(?is)\b(?:search|grep|look)\b(?:\s+\w+){{0,3}}?\s+(?:for\s+)?(?:{_QUOTED}|(?<=for )(.+?)(?=\s+in\b|[.?!]?\s*$))")
_WHERE = re.compile(rf"(?is)\b(?:find|where)\b.*?{_QUOTED}")
_PATTERN = re.compile(r"(?<!\w)(\S*[*]\S*)")
_READ = re.compile(r"(?i)\b(?:read|open|show|cat|print|display|see|what(?:'s| is| does)|summari[sz]e)\b")
_LIST = re.compile(
    r"(?i)^\s*(?:ls|dir)\b|\b(?:list|what|which|show)\b.{0,40}\b(?:files?|documents?|docs|pages?|folders?|notes?|there|have|got)\b|\blist\b"
)
_ABOUT = re.compile(r"(?i)\b(?:say|says|said|about|tell)\b")
_ENDING = ".:"


@dataclass(frozen=True)
class Asked:
    """One thing to do: where, with what text, and with what in its place."""

    kind: Kind
    path: str = ""
    text: str = ""
    new: str = ""


def read_task(task: str) -> Asked:
    """Find out what a text asks for; what is nothing else is a question that the files may answer."""
    path = _path(_without_quoted(task))
    if (found := _EDIT.search(task)) is not None:
        return Asked("edit", path, _first(found.groups()[:3]), _first(found.groups()[3:]))
    if (found := _WRITE.search(task) or _CREATE.search(task)) is not None and path:
        return Asked("write", path, _first(found.groups()))
    if _DELETE.search(task) and path:
        return Asked("delete", path)
    if (found := _SEARCH.search(task) or _WHERE.search(task)) is not None:
        return Asked("search", path, _first(found.groups()).strip())
    if (found := _PATTERN.search(task)) is not None:
        return Asked("find", text=found[1].strip("\"'`?!,"))
    if path and not path.endswith("/") and not _is_listing(task):
        return Asked("read", path)
    if path or (_LIST.search(task) and not _ABOUT.search(task)):
        return Asked("list", path or "/")
    return Asked("question", text=task)


def _is_listing(task: str) -> bool:
    """Tell whether it is the folder that is wanted: it is asked for as one."""
    return re.match(r"(?i)\s*(?:ls|dir|list)\b", task) is not None


def _path(task: str) -> str:
    """Find the first path in a text, from the root."""
    found = _PATH.search(task)
    if found is None:
        return ""
    path = found[0].rstrip(_ENDING) or "/"
    return path if path.startswith(("/", ".")) else f"/{path}"


def _without_quoted(task: str) -> str:
    """Take out what is quoted, unless the quote is a path."""
    return re.sub(_QUOTED, lambda quoted: _first(quoted.groups()) if _first(quoted.groups()).startswith("/") else " ", task)


def _first(groups: tuple[str | None, ...]) -> str:
    return next((group for group in groups if group), "")
