"""Scenarios: conversations as data, with what each turn is expected to do. A TOML file has the scenarios of one agent."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from interlock.errors import SettingsInvalid
from interlock.models.replies import ReplyLine, Scripted, scripted
from interlock.settings import unknown_settings
from interlock.testing.media import MEDIA

__all__ = ["ANYTHING", "Expected", "Kind", "Scenario", "Script", "Turn", "Used", "load_scenarios"]

ANYTHING = "..."
"""Matches any number of nodes in a path."""

Kind: TypeAlias = Literal["offline", "script"]
"""What answers in place of a model: the offline rules, or a script."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Used(_Part):
    """A tool call: the name of the tool, and the code of its error if it failed."""

    name: str
    code: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    def __str__(self) -> str:
        return self.name if self.code is None else f"{self.name} ({self.code})"


class Expected(_Part):
    """What a turn is expected to do. Only the status is always compared, the rest where it is given."""

    status: Literal["success", "error", "waiting", "refused"] | None = None
    """`success` by default. `refused` means that the input is refused before the turn starts."""
    error: str | None = None
    """The error code. It implies the status `error`, unless the status is `refused`."""
    path: tuple[str, ...] | None = None
    """The nodes in order. `...` matches any number of nodes, `<name>` is a path of the file's `[paths]`."""
    tools: tuple[Used, ...] | None = None
    """All tool calls in the order in which they start."""
    side_by_side: int | None = None
    """The largest number of tools that run at the same time."""
    emitted: tuple[str, ...] | None = None
    """The names of the custom events, in order."""
    asks: int | None = None
    """The number of model calls."""
    output: str | None = None
    """The whole output."""
    says: tuple[str, ...] = ()
    """Phrases that the output contains."""
    says_not: tuple[str, ...] = ()
    """Phrases that the output does not contain."""
    nowhere: tuple[str, ...] = ()
    """Texts that occur neither in an event nor in the result."""
    values: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Values of the result as JSON, by path: `metadata.retries`. `*` matches every item."""
    none: tuple[str, ...] = ()
    """Paths that have no value, or null, which TOML cannot express."""
    stored: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The contents of the agent's own stores, by the names in `Agent(stored=...)`."""

    @field_validator("path")
    @classmethod
    def _expand(cls, path: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        """Replace the names of paths by the paths of the file."""
        known = cast("Mapping[str, Any]", info.context or {})
        return None if path is None else tuple(_expanded(path, known))


def _expanded(path: Iterable[str], known: Mapping[str, Any]) -> Iterator[str]:
    for step in path:
        name = step[1:-1] if step.startswith("<") and step.endswith(">") else None
        if name is None:
            yield step
        elif name in known:
            yield from _expanded(known[name], {other: one for other, one in known.items() if other != name})
        else:
            raise ValueError(f"there is no path '{name}' in [paths]")


class Script(Expected):
    """The replies of a scripted model in a turn, one for each call, and what is expected with them."""

    replies: tuple[ReplyLine, ...]
    """Text, `{ decide = {...} }`, `{ text, calls = [{ name, arguments }] }` or `{ error = "model_timeout" }`."""
    asked: tuple[str | dict[str, JsonValue], ...] = ()
    """What the last message of each call contains: a phrase, or values by path where the message is JSON."""

    def scripted(self) -> tuple[Scripted, ...]:
        """Return the replies as arguments of ScriptedModel."""
        return tuple(map(scripted, self.replies))


def _check_names(settings: dict[str, Any]) -> dict[str, Any]:
    unknown = unknown_settings(settings)
    if unknown:
        raise ValueError(f"there is no setting '{unknown[0]}'")
    return settings


_Settings: TypeAlias = Annotated[dict[str, Any], Field(default_factory=dict[str, Any]), AfterValidator(_check_names)]


class Turn(_Part):
    """One turn: its input, and what is expected with the offline rules, with a script, or with both."""

    title: str | None = None
    detailed: StrictBool = Field(default=False, alias="telling")
    """Whether the tour shows the steps of the turn, and not only its result."""
    say: str | None = None
    media: str | None = None
    """The name of a generated image or audio file: see interlock.testing.media."""
    fields: dict[str, JsonValue] | None = None
    answer: str | None = None
    """A person's answer to the suspended turn."""
    role: str | None = None
    session: str | None = None
    """Another session than the scenario's own."""
    restart: StrictBool = False
    """Whether all applications are closed before the turn, as in a restart of the process."""
    settings: _Settings
    expect: Expected = Field(default_factory=Expected)
    offline: Expected = Field(default_factory=Expected)
    script: Script | None = None

    @model_validator(mode="after")
    def _check_input(self) -> Turn:
        given = [name for name in ("say", "media", "fields", "answer") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"it has {' and '.join(given) or 'nothing'} as its input: give one of say, media, fields, answer")
        if self.media is not None and self.media not in MEDIA:
            raise ValueError(f"there is no media '{self.media}': there are {', '.join(MEDIA)}")
        return self

    @property
    def text(self) -> str:
        """The input as text."""
        if self.media is not None:
            return MEDIA[self.media]()
        return self.say or self.answer or str(self.fields or "")

    @property
    def given(self) -> str | Mapping[str, Any]:
        """The input as the agent receives it."""
        return self.text if self.fields is None else self.fields

    def expected(self, kind: Kind) -> tuple[Expected, ...]:
        """Return all expectations for a kind of run."""
        return (self.expect, self.offline) if kind == "offline" else (self.expect, *([] if self.script is None else [self.script]))


class Scenario(_Part):
    """A conversation: turns that run one after the other in a session."""

    title: str
    tour: StrictBool = False
    """Whether the tour shows it. Each turn is shown with its title; a single turn may use the title of the scenario."""
    plays: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("offline",)
    role: str | None = None
    settings: _Settings
    turns: Annotated[tuple[Turn, ...], Field(min_length=1, alias="turn")]

    @model_validator(mode="after")
    def _check_plays(self) -> Scenario:
        scripted = [turn.script is not None for turn in self.turns]
        if "script" in self.plays and not all(scripted):
            raise ValueError(f"turn {scripted.index(False) + 1} has no script, and 'plays' names it")
        if "script" not in self.plays and any(scripted):
            raise ValueError(f"turn {scripted.index(True) + 1} has a script, but 'plays' does not name it")
        if "offline" not in self.plays and (self.tour or any(turn.offline != Expected() for turn in self.turns)):
            raise ValueError("it has expectations for the offline rules, which 'plays' does not name")
        if self.tour and len(self.turns) > 1 and not all(turn.title for turn in self.turns):
            raise ValueError("every turn of a scenario of the tour needs a title where there are several turns")
        return self

    def title_of(self, turn: Turn) -> str:
        """Return the title that the tour shows for a turn."""
        return turn.title or self.title


class _Paths(_Part):
    paths: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])


class _File(_Paths):
    scene: Annotated[tuple[Scenario, ...], Field(min_length=1)]

    @field_validator("scene")
    @classmethod
    def _check_titles(cls, scenarios: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
        titles = [scenario.title for scenario in scenarios]
        again = next((title for title in titles if titles.count(title) > 1), None)
        if again is not None:
            raise ValueError(f"two scenarios have the title '{again}'")
        return scenarios


def load_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Read a file of scenarios. Raises SettingsInvalid with the file, the scenario and the reason if it cannot be used."""
    try:
        with path.open("rb") as file:
            written = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsInvalid(f"The scenarios in '{path}' cannot be read: {error}.") from error
    try:
        return _File.model_validate(written, context=_Paths.model_validate({"paths": written.get("paths", {})}).paths).scene
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        wrong = "; ".join(f"{_place(written, one['loc'])}: {one['msg'].removeprefix('Value error, ')}" for one in found)
        raise SettingsInvalid(f"The scenarios in '{path}' cannot be used: {wrong}.") from error


def _place(written: Mapping[str, Any], where: tuple[int | str, ...]) -> str:
    """Return where in the file a value is: the title of the scenario and the number of the turn."""
    match where:
        case ("scene", int(at), "turn", int(turn), *rest):
            named = f"{_scenario(written, at)}, turn {turn + 1}"
        case ("scene", int(at), *rest):
            named = _scenario(written, at)
        case _:
            return ".".join(map(str, where)) or "the file"
    return ", ".join([named, *([".".join(map(str, rest))] if rest else [])])


def _scenario(written: Mapping[str, Any], at: int) -> str:
    scenario: object = written["scene"][at]
    title = cast("dict[str, object]", scenario).get("title") if isinstance(scenario, dict) else None
    return f"scenario '{title}'" if isinstance(title, str) else f"scenario {at + 1}"
