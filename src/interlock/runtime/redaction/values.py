"""What tracers and callback handlers may see of a run that LangGraph drives: the same as in Interlock's own events."""

from __future__ import annotations

import base64
import copy
import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from interlock.runtime.redaction import REDACTED, Redactor
from interlock.runtime.redaction.exceptions import said, tells

__all__ = ["TraceRedaction"]

_DEEPEST = 200  # values inside one another: what is deeper, or inside itself, is not shown
_ORDERED = (list, tuple, deque)
_UNORDERED = (set, frozenset)


class TraceRedaction:
    """Takes secrets out of Python values and leaves everything else as it is.

    `secret` are the names of fields that are labelled Secret. Their values are not shown, and are looked for everywhere else
    from then on; `redactor` has them, for whoever else takes part in the run.
    """

    def __init__(self, redactor: Redactor, *, secret: frozenset[str], names: frozenset[str]) -> None:
        self.redactor = redactor
        self._secret = secret
        self._names = names

    def shown(self, value: Any) -> Any:
        """Return a value without secrets: of the same kind, and the same object where nothing was in it."""
        if self._secret:
            self._learn(value, 0)
        return self._shown(value, 0)

    def _learn(self, value: Any, depth: int) -> None:
        """Look out for the values of secret fields, wherever there is a mapping or a record that has one."""
        if depth > _DEEPEST:
            return
        fields = _fields(value)
        if fields is None:
            for part in cast("Iterable[Any]", value) if isinstance(value, (*_ORDERED, *_UNORDERED)) else ():
                self._learn(part, depth + 1)
            return
        for name, part in fields.items():
            if name in self._secret:
                if part is not None and part != REDACTED:
                    self.redactor.learn(part)
            else:
                self._learn(part, depth + 1)

    def _shown(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            return REDACTED
        if value is None or isinstance(value, bool | type):
            return value
        if isinstance(value, BaseException):
            return self._error(value)
        if isinstance(value, bytes | bytearray):
            texts = (value.decode(errors="replace"), value.decode("latin-1"), base64.b64encode(value).decode())
            return value if all(self.redactor.text(text) == text for text in texts) else REDACTED
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, _ORDERED):
            return self._sequence(cast("Any", value), depth)
        if isinstance(value, _UNORDERED):
            return self._set(cast("Any", value), depth)
        if (fields := _fields(value)) is not None:
            return self._record(value, fields, depth)
        text = str(value) if isinstance(value, str) else _written(value)
        shown = self.redactor.text(text)
        return value if shown == text else shown

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        shown: dict[Any, Any] = {}
        for key, part in value.items():
            name = key if key in self._names else self._shown(key, depth + 1)
            while name in shown:  # two keys that look alike now are two all the same
                name = f"{name}'"
            shown[name] = self._field(key, part, depth)
        is_same = len(shown) == len(value) and all(name in value and value[name] is part for name, part in shown.items())
        return value if is_same else shown

    def _sequence(self, value: Any, depth: int) -> Any:
        parts = [self._shown(part, depth + 1) for part in value]
        if all(part is before for part, before in zip(parts, value, strict=True)):
            return value
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)  # a named tuple takes them one by one

    def _set(self, value: Any, depth: int) -> Any:
        parts = {part: self._shown(part, depth + 1) for part in value}
        return value if all(part is shown for part, shown in parts.items()) else type(value)(parts.values())

    def _record(self, value: Any, fields: Mapping[str, Any], depth: int) -> Any:
        changed = {name: shown for name, part in fields.items() if (shown := self._field(name, part, depth)) is not part}
        if not changed:
            return value
        if isinstance(value, BaseModel):
            return value.model_copy(update=changed)
        made = copy.copy(value)
        for name, part in changed.items():
            object.__setattr__(made, name, part)  # also of one that is frozen
        return made

    def _field(self, name: Any, value: Any, depth: int) -> Any:
        return REDACTED if name in self._secret and value is not None else self._shown(value, depth + 1)

    def _error(self, error: BaseException) -> BaseException:
        """Return an error, or another in its place where it would tell a secret."""
        if not tells(self.redactor, error):
            return error
        return RuntimeError(f"{type(error).__name__}: {self.redactor.text(said(error))}")


def _written(value: Any) -> str:
    """Return how a value is written by whoever does not know its class."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a value may do anything
        return type(value).__name__


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """Return the parts of a value that have names; None of one that has none."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name, None) for one in dataclasses.fields(value)}
    return None
