"""Redaction of Python values, for the callback handlers and tracers of a graph that LangGraph drives."""

from __future__ import annotations

import base64
import copy
import operator
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from interlock.runtime.redaction.exceptions import contains_secret, message_of
from interlock.runtime.redaction.redactor import REDACTED, Redactor
from interlock.secrets import fields_of

__all__ = ["ValueRedactor"]

_MAX_DEPTH = 200  # what is nested deeper, or contains itself, is replaced
_COLLECTIONS = (list, tuple, deque, set, frozenset)


class ValueRedactor:
    """Replaces secrets inside Python values and leaves everything else as it is.

    `secret` are the names of the fields labelled Secret: their values are replaced, and added to `redactor`, so that they are
    replaced everywhere else from then on. `keys` are keys of mappings that are never replaced.
    """

    def __init__(self, redactor: Redactor, *, secret: frozenset[str], keys: frozenset[str]) -> None:
        self.redactor = redactor
        self._secret = secret
        self._keys = keys

    def redact(self, value: Any) -> Any:
        """Return a value of the same type without secrets, or the same object where it has none."""
        if self._secret:
            self._add_secrets(value, 0)
        return self._redact(value, 0)

    def _add_secrets(self, value: Any, depth: int) -> None:
        """Add the values of secret fields, in every mapping and record inside the value."""
        if depth > _MAX_DEPTH:
            return
        fields = fields_of(value)
        if fields is None:
            for part in cast("Iterable[Any]", value) if isinstance(value, _COLLECTIONS) else ():
                self._add_secrets(part, depth + 1)
            return
        for name, part in fields.items():
            if name in self._secret:
                if part is not None and part != REDACTED:
                    self.redactor.add_secret(part)
            else:
                self._add_secrets(part, depth + 1)

    def _redact(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
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
        if isinstance(value, _COLLECTIONS):
            return self._collection(cast("Any", value), depth)
        if (fields := fields_of(value)) is not None:
            return self._record(value, fields, depth)
        text = str(value) if isinstance(value, str) else _repr(value)
        redacted = self.redactor.text(text)
        return value if redacted == text else redacted

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        redacted: dict[Any, Any] = {}
        for key, part in value.items():
            name = key if key in self._keys else self._redact(key, depth + 1)
            # Two keys that became equal by redaction both stay.
            while name in redacted:
                name = f"{name}'"
            redacted[name] = self._field(key, part, depth)
        is_same = len(redacted) == len(value) and all(name in value and value[name] is part for name, part in redacted.items())
        return value if is_same else redacted

    def _collection(self, value: Any, depth: int) -> Any:
        parts = [self._redact(part, depth + 1) for part in value]
        if all(map(operator.is_, parts, value)):
            return value
        is_named_tuple = hasattr(value, "_fields")
        return type(value)(*parts) if is_named_tuple else type(value)(parts)

    def _record(self, value: Any, fields: Mapping[str, Any], depth: int) -> Any:
        changed = {name: redacted for name, part in fields.items() if (redacted := self._field(name, part, depth)) is not part}
        if not changed:
            return value
        if isinstance(value, BaseModel):
            return value.model_copy(update=changed)
        made = copy.copy(value)
        for name, part in changed.items():
            # A frozen dataclass refuses ordinary assignment.
            object.__setattr__(made, name, part)
        return made

    def _field(self, name: Any, value: Any, depth: int) -> Any:
        return REDACTED if name in self._secret and value is not None else self._redact(value, depth + 1)

    def _error(self, error: BaseException) -> BaseException:
        """Return the error, or a RuntimeError with its redacted message where it contains a secret."""
        if not contains_secret(self.redactor, error):
            return error
        return RuntimeError(f"{type(error).__name__}: {self.redactor.text(message_of(error))}")


def _repr(value: Any) -> str:
    """Return the repr of a value, or the name of its class where `__repr__` fails."""
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - `__repr__` of another library's class may raise anything
        return type(value).__name__
