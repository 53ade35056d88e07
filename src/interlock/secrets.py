"""Secrets among settings, found by their type: `SecretStr`, `SecretBytes` and `Secret[...]` of pydantic, and two types of our own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

__all__ = ["SecretIfLong", "SecretUrl", "fields_of", "find_secrets", "parts_of", "without_password"]

_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^:/@]*:([^@]*)@", re.IGNORECASE)
_SHORTEST = 8  # characters


class SecretUrl(SecretStr):
    """A URL that may have a password in it. The password is secret; the rest of the URL is not."""


class SecretIfLong(SecretStr):
    """A value that is often a key and sometimes a flag such as `1`. It is secret if it has at least 8 characters."""


def without_password(url: str) -> str:
    """Return a URL that can be shown: without the user and password, and without the query, which may have a password too."""
    return re.sub(r"://.*@", "://...@", url.partition("?")[0])


def find_secrets(value: object) -> Iterator[Any]:
    """Find every secret in a value, however deep it is nested in models, dataclasses, mappings and collections.

    A secret is yielded in clear: as a whole, and where it is a URL also its password, which may be shown without the rest.
    """
    return _find(value, set())


def _find(value: object, seen: set[int]) -> Iterator[Any]:
    if isinstance(value, SecretStr | SecretBytes | Secret):
        yield from _clear(cast("Any", value))
        return
    parts = parts_of(value)
    if parts is None or id(value) in seen:
        return
    seen.add(id(value))  # a value may contain itself
    for part in parts:
        yield from _find(part, seen)


def _clear(secret: SecretStr | SecretBytes | Secret[Any]) -> Iterator[Any]:
    value: Any = secret.get_secret_value()
    if isinstance(secret, SecretIfLong) and len(value) < _SHORTEST:
        return
    if not isinstance(secret, SecretUrl):
        yield value
    found = _PASSWORD.match(value) if isinstance(value, str) else None
    if found is not None and found[1]:
        yield from dict.fromkeys((found[1], unquote(found[1])))


def fields_of(value: object) -> Mapping[Any, Any] | None:
    """Return the fields of a mapping, a pydantic model or a dataclass; None for any other value."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value)
    if isinstance(value, BaseModel):
        return {**vars(value), **(value.model_extra or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None


def parts_of(value: object) -> Iterable[Any] | None:
    """Return the values inside a collection or a record, and the keys of a mapping; None for a value that has no parts."""
    fields = fields_of(value)
    if fields is None:
        return cast("Iterable[Any]", value) if isinstance(value, list | tuple | set | frozenset) else None
    return (*fields.keys(), *fields.values()) if fields is value else fields.values()
