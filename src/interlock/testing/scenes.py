"""Scenes: conversations as data, with what is expected of every turn. A TOML file has those of one agent."""

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

from interlock.adapters.models.replies import ReplyLine, Scripted, scripted
from interlock.errors import SettingsInvalid
from interlock.settings import unknown_settings
from interlock.testing.media import MEDIA

__all__ = ["ANYTHING", "Expected", "Graphed", "Kind", "Scene", "Script", "Turn", "Used", "load_scenes"]

ANYTHING = "..."
"""Stands in a path for any number of nodes."""

Kind: TypeAlias = Literal["offline", "script"]
"""Who answers: the offline rules, or a script."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Used(_Part):
    """A tool that is used: its name alone where it succeeds, else also the code of its error."""

    name: str
    code: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    def __str__(self) -> str:
        return self.name if self.code is None else f"{self.name} ({self.code})"


class Graphed(_Part):
    """All that is in the property graph of the session: `Label key {properties}`, `start -[RELATIONSHIP]-> end`."""

    nodes: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()


class Expected(_Part):
    """How a turn ends, and what happens on the way; what is not mentioned is not looked at, but for the status."""

    status: Literal["success", "error", "waiting", "refused"] | None = None
    """`success` where nothing else is said. A turn that is `refused` does not begin."""
    error: str | None = None
    """The code. A turn that is not refused has the status `error` by it."""
    path: tuple[str, ...] | None = None
    """The nodes in order; `...` stands for any number of them, `<name>` for a path of the file's `[paths]`."""
    tools: tuple[Used, ...] | None = None
    """The tools in the order in which they begin, all of them."""
    side_by_side: int | None = None
    """How many of them run at once, at the most."""
    told: tuple[str, ...] | None = None
    """The names of what nodes tell of their own accord, in order."""
    asks: int | None = None
    """How often a model is asked."""
    output: str | None = None
    """The whole output."""
    says: tuple[str, ...] = ()
    """Phrases that are in the output."""
    says_not: tuple[str, ...] = ()
    """Phrases that are not."""
    nowhere: tuple[str, ...] = ()
    """Texts that are in nothing that is told of the turn: no event, no part of the result."""
    values: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Values of the result as JSON, by where they are: `metadata.retries`; `*` stands for every item."""
    none: tuple[str, ...] = ()
    """Where there is no value, since TOML has none for that."""
    graph: Graphed | None = None

    @field_validator("path")
    @classmethod
    def _fill_in(cls, path: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        """Put the paths of the file in the place of their names."""
        known = cast("Mapping[str, Any]", info.context or {})
        return None if path is None else tuple(_filled_in(path, known))


def _filled_in(path: Iterable[str], known: Mapping[str, Any]) -> Iterator[str]:
    for step in path:
        name = step[1:-1] if step.startswith("<") and step.endswith(">") else None
        if name is None:
            yield step
        elif name in known:
            yield from _filled_in(known[name], {other: one for other, one in known.items() if other != name})
        else:
            raise ValueError(f"there is no path '{name}' in [paths]")


class Script(Expected):
    """What a model says in a turn, one reply for each time it is asked, and what is expected then."""

    replies: tuple[ReplyLine, ...]
    """Text, `{ decide = {...} }`, `{ text, calls = [{ name, arguments }] }` or `{ error = "model_timeout" }`."""
    asked: tuple[str | dict[str, JsonValue], ...] = ()
    """What it is asked each time: a phrase of the last message, or values of it where that is JSON."""

    def scripted(self) -> tuple[Scripted, ...]:
        """Return the replies as a ScriptedModel takes them."""
        return tuple(map(scripted, self.replies))


def _check_names(settings: dict[str, Any]) -> dict[str, Any]:
    unknown = unknown_settings(settings)
    if unknown:
        raise ValueError(f"there is no setting '{unknown[0]}'")
    return settings


_Settings: TypeAlias = Annotated[dict[str, Any], Field(default_factory=dict[str, Any]), AfterValidator(_check_names)]


class Turn(_Part):
    """One input to one reply: what is said, by whom, and what is expected, by the rules, by a script, by both."""

    title: str | None = None
    telling: StrictBool = False
    """Whether the tour shows how it goes, and not only how it ends."""
    say: str | None = None
    media: str | None = None
    """The name of a picture or of a sound that is made when it is needed: see interlock.testing.media."""
    fields: dict[str, JsonValue] | None = None
    answer: str | None = None
    """What a person says to the turn that waits."""
    role: str | None = None
    session: str | None = None
    """Another session than the scene's own."""
    restart: StrictBool = False
    """Whether everything is closed before, and opened anew."""
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
        """What a person would see of the input."""
        if self.media is not None:
            return MEDIA[self.media]()
        return self.say or self.answer or str(self.fields or "")

    @property
    def given(self) -> str | Mapping[str, Any]:
        """What the agent gets."""
        return self.text if self.fields is None else self.fields

    def expected(self, kind: Kind) -> tuple[Expected, ...]:
        """Return everything that is expected where this is who answers."""
        return (self.expect, self.offline) if kind == "offline" else (self.expect, *([] if self.script is None else [self.script]))


class Scene(_Part):
    """A conversation."""

    title: str
    tour: StrictBool = False
    """Whether the tour shows it: each turn by its title, or by the scene's where that is the only one."""
    plays: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("offline",)
    role: str | None = None
    settings: _Settings
    turns: Annotated[tuple[Turn, ...], Field(min_length=1, alias="turn")]

    @model_validator(mode="after")
    def _check_plays(self) -> Scene:
        scripted = [turn.script is not None for turn in self.turns]
        if "script" in self.plays and not all(scripted):
            raise ValueError(f"turn {scripted.index(False) + 1} has no script, and the scene is played by one")
        if "script" not in self.plays and any(scripted):
            raise ValueError(f"turn {scripted.index(True) + 1} has a script, but 'plays' does not name it")
        if "offline" not in self.plays and (self.tour or any(turn.offline != Expected() for turn in self.turns)):
            raise ValueError("it is for the offline rules, which 'plays' does not name")
        if self.tour and len(self.turns) > 1 and not all(turn.title for turn in self.turns):
            raise ValueError("every turn of a scene of the tour has a title where there are several")
        return self

    def title_of(self, turn: Turn) -> str:
        """Return by what title the tour shows a turn."""
        return turn.title or self.title


class _Paths(_Part):
    paths: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])


class _File(_Paths):
    scene: Annotated[tuple[Scene, ...], Field(min_length=1)]

    @field_validator("scene")
    @classmethod
    def _check_titles(cls, scenes: tuple[Scene, ...]) -> tuple[Scene, ...]:
        titles = [scene.title for scene in scenes]
        again = next((title for title in titles if titles.count(title) > 1), None)
        if again is not None:
            raise ValueError(f"two scenes have the title '{again}'")
        return scenes


def load_scenes(path: Path) -> tuple[Scene, ...]:
    """Read a file of scenes. One that cannot be used is a SettingsInvalid that names the file, the scene and the reason."""
    try:
        with path.open("rb") as file:
            written = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsInvalid(f"The scenes in '{path}' cannot be read: {error}.") from error
    try:
        return _File.model_validate(written, context=_Paths.model_validate({"paths": written.get("paths", {})}).paths).scene
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        wrong = "; ".join(f"{_place(written, one['loc'])}: {one['msg'].removeprefix('Value error, ')}" for one in found)
        raise SettingsInvalid(f"The scenes in '{path}' cannot be used: {wrong}.") from error


def _place(written: Mapping[str, Any], where: tuple[int | str, ...]) -> str:
    """Say where in a file something is: the scene by its title, the turn by its number."""
    match where:
        case ("scene", int(at), "turn", int(turn), *rest):
            named = f"{_scene(written, at)}, turn {turn + 1}"
        case ("scene", int(at), *rest):
            named = _scene(written, at)
        case _:
            return ".".join(map(str, where)) or "the file"
    return ", ".join([named, *([".".join(map(str, rest))] if rest else [])])


def _scene(written: Mapping[str, Any], at: int) -> str:
    scene: object = written["scene"][at]
    title = cast("dict[str, object]", scene).get("title") if isinstance(scene, dict) else None
    return f"scene '{title}'" if isinstance(title, str) else f"scene {at + 1}"
