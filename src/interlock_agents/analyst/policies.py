"""Adapters for Profiles and Policy that are configured by settings."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import regex
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.contract.schema import error_summary
from interlock.errors import SettingsInvalid
from interlock_agents.analyst.capabilities import Profile, Verdict

__all__ = ["FileProfiles", "OpenProfiles", "RulePolicy"]

# Time limit for matching one pattern.
_SECONDS = 1.0


class _User(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    tools: Annotated[list[str], Field(default_factory=list)]
    preferences: Annotated[dict[str, str], Field(default_factory=dict)]


class _Users(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    default: _User | None = None
    users: Annotated[dict[str, _User], Field(default_factory=dict)]


class OpenProfiles:
    """Permits every tool to every user. Meant for a single-user machine."""

    async def load(self, user_id: str) -> Profile:
        return Profile(user_id=user_id, permissions=("*",))


class FileProfiles:
    """Reads users from a TOML file: `[users.NAME]` and, for all other users, `[default]`, each with `tools` and `preferences`.

    A user who is not in the file may use no tools, unless the file has a default.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._users = _Users.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except ValidationError as error:
            raise SettingsInvalid(f"The users in '{path}' cannot be used: {error_summary(error)}.") from error
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise SettingsInvalid(f"The users in '{path}' cannot be read: {error}.") from error

    async def load(self, user_id: str) -> Profile:
        found = self._users.users.get(user_id) or self._users.default or _User(tools=[], preferences={})
        return Profile(user_id=user_id, permissions=tuple(found.tools), preferences=found.preferences)


class RulePolicy:
    """Judges a question by a list of patterns, its length and the permissions of the user."""

    def __init__(self, *, denied: Sequence[str], max_characters: int, max_retries: int, window: int) -> None:
        self._denied = [regex.compile(pattern) for pattern in denied]
        self._max_characters = max_characters
        self._max_retries = max_retries
        self._window = window

    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Verdict:
        """Judge a question. Refuse it if a pattern does not finish in time."""
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
