"""A vault that reads secrets from the environment or from files when they are needed, and does not store them."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from interlock.errors import SettingsInvalid
from interlock_agents.gateway.errors import SecretUnavailable

__all__ = ["SettingsVault"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHORTEST = 8  # characters: what is shorter cannot be kept out of other texts
_LONGEST = 64 * 1024


class SettingsVault:
    """Finds secrets by the names that settings give them: `env:VARIABLE` or `file:PATH` each."""

    def __init__(self, places: Mapping[str, str], *, reference: str | None) -> None:
        for name, place in places.items():
            kind, _, where = place.partition(":")
            if not _NAME.fullmatch(name) or kind not in {"env", "file"} or not where:
                said = f"'{name}'" if _NAME.fullmatch(name) else "with a name that is not plain"  # the place may be the secret itself
                raise SettingsInvalid(f"Secret {said} cannot be found: use a plain name with 'env:VARIABLE' or 'file:PATH'.")
        if reference is not None and reference not in places:
            raise SettingsInvalid(f"There is no secret '{reference}'. There are: {', '.join(places) or 'none'}.")
        self._places = dict(places)
        self._reference = reference or ""

    async def reference(self) -> str:
        """Return the name of the admin's secret, or "" if none is configured."""
        return self._reference

    async def fetch(self, reference: str) -> str:
        """Return the secret of this name."""
        if reference not in self._places:
            raise SecretUnavailable("There is no secret of this name.")
        kind, _, where = self._places[reference].partition(":")
        found = os.environ.get(where, "") if kind == "env" else await asyncio.to_thread(_read, reference, where)
        secret = found.strip("\r\n")
        if len(secret.strip()) < _SHORTEST or any("\ud800" <= letter <= "\udfff" for letter in secret):
            raise SecretUnavailable(f"Secret '{reference}' is not set, has less than {_SHORTEST} characters, or is no text.")
        return secret


def _read(reference: str, where: str) -> str:
    """Read a secret from a file. Errors show neither the path nor the content."""
    try:
        with open(Path(where).expanduser(), "rb", opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK)) as opened:
            if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raw = opened.read(_LONGEST + 1)
                if len(raw) <= _LONGEST:
                    return raw.decode()
    except (OSError, ValueError, RuntimeError):  # no file, no text, no such path, no such home
        pass
    raise SecretUnavailable(f"The file of secret '{reference}' cannot be read, is too large, or is no text.")
