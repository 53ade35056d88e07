"""Users and the policy for their questions, by settings."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import regex
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.capabilities.policy import Verdict
from interlock.capabilities.profiles import Profile
from interlock.contract.schema import error_summary
from interlock.errors import SettingsInvalid

__all__ = ["FileProfiles", "OpenProfiles", "RulePolicy"]

_SECONDS = 1.0  # that looking for one pattern may take


class _User(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tools: Annotated[list[str], Field(default_factory=list)]
    preferences: Annotated[dict[str, str], Field(default_factory=dict)]


class _Users(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    default: _User | None = None
    users: Annotated[dict[str, _User], Field(default_factory=dict)]


class OpenProfiles:
    """Lets everybody use everything: for one's own machine."""

    async def load(self, user_id: str) -> Profile:
        """Return the profile that everybody has."""
        return Profile(user_id=user_id, permissions=("*",))


class FileProfiles:
    """Reads users from a TOML file: `[users.NAME]` and, for everybody else, `[default]`, each with `tools` and `preferences`.

    Somebody who is not in the file may use nothing, unless it has a default.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._users = _Users.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise SettingsInvalid(f"The users in '{path}' cannot be used: {error_summary(error)}.") from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise SettingsInvalid(f"The users in '{path}' cannot be read: {error}.") from error

    async def load(self, user_id: str) -> Profile:
        """Return what the file says of a user."""
        found = self._users.users.get(user_id) or self._users.default or _User(tools=[], preferences={})
        return Profile(user_id=user_id, permissions=tuple(found.tools), preferences=found.preferences)


class RulePolicy:
    """Judges by a list of patterns, a length, and what the user may use."""

    def __init__(self, *, denied: Sequence[str], max_characters: int, max_retries: int, window: int) -> None:
        self._denied = [regex.compile(pattern) for pattern in denied]
        self._max_characters = max_characters
        self._max_retries = max_retries
        self._window = window

    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Verdict:
        """Judge a question. One that takes too long to judge is refused."""
        permitted = tuple(tool for tool in tools if tool in profile.permissions or "*" in profile.permissions)
        reason = self._reason(text)
        return Verdict(
            allowed=not reason, reason=reason, tools=permitted if not reason else (), max_retries=self._max_retries, window=self._window
        )

    def _reason(self, text: str) -> str:
        if len(text) > self._max_characters:
            return f"it is over {self._max_characters:,} characters long"
        try:
            if any(pattern.search(text, timeout=_SECONDS) for pattern in self._denied):
                return "it asks for something that the policy does not allow"
        except TimeoutError:
            return "it cannot be checked"
        return ""
