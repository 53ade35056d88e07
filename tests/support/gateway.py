"""What the tests of the gateway share: files with canaries, an application on them, and a model that obeys whatever it reads."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Chunk, Clock, Decision, Ids, Message, Model, ModelReply, Tool, ToolCall
from interlock.engine import ENGINES, EngineName
from interlock.logs import LogFormatter
from interlock.runtime.events import Event
from interlock.runtime.redaction import Redactor
from interlock.runtime.redaction.encodings import encodings
from interlock.settings import PATTERNS
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel, SwitchedModel
from tests.support.listening import listening

T = TypeVar("T", bound=BaseModel)

BRIDGE = ("supervisor", "bridge", "customer_from_bridge", "customer_from_bridge/customer")
READS = ("ls", "read_file", "glob", "grep")
WRITES = (*READS, "write_file", "edit_file", "delete")
NUMBERS = itertools.count(1)
ADMIN_CANARY = "Canary-admin-7Fq2xLw9"
DOCS_CANARY = "canary-docs-3Kd8"
SECRET = 'vault+Canary/9mZ4=tQ7 é"x'  # noqa: S105 - a canary
"""Looks different in JSON, in a URL and in base64."""


def make_files(folder: Path, *, secret: str = SECRET) -> Path:
    """Make the files of both sides, and a secret beside them; return their base."""
    base = folder / "files"
    for side in ("admin", "docs"):
        (base / side / "inner").mkdir(parents=True)
    (folder / "secret").write_bytes(secret.encode())
    (base / "admin" / "credentials.env").write_text(f"TOKEN={ADMIN_CANARY}\n")
    (base / "admin" / "notes.md").write_text(f"# Notes\n\nThe word of the day is {ADMIN_CANARY}.\n")
    (base / "admin" / "inner" / "deep.md").write_text(f"{ADMIN_CANARY}\n")
    (base / "docs" / "welcome.md").write_text(f"# Welcome\n\nRefunds take five days ({DOCS_CANARY}).\n")
    (base / "docs" / "inner" / "more.md").write_text("More of it.\n")
    return base


def vault(folder: Path) -> dict[str, Any]:
    """Settings for the files and the secret that `make_files` has made."""
    return {"gateway_path": folder / "files", "gateway_secrets": {"key": f"file:{folder}/secret"}, "gateway_secret_ref": "key"}


def call(tool: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{next(NUMBERS)}", name=tool, arguments=arguments)


def calls(*wanted: ToolCall) -> ModelReply:
    return ModelReply(calls=wanted)


def app(engine: EngineName, folder: Path, *replies: Scripted, grants: Mapping[type, object] | None = None, **settings: Any) -> Interlock:
    """Make an application; with replies it has a scripted model, else the offline rules."""
    given: dict[type, object] = {Clock: FixedClock(), Ids: CountingIds(f"turn-{next(NUMBERS)}"), **(grants or {})}
    if replies:
        given[Model] = ScriptedModel(*replies)
    return Interlock(Settings(engine=engine, data_dir=folder, **settings), grants=given)


async def take(
    engine: EngineName, folder: Path, text: str | Mapping[str, Any], *replies: Scripted, role: str | None = "user", **more: Any
) -> tuple[TurnResult, list[Event]]:
    """Take one turn in an application of its own."""
    events: list[Event] = []
    async with app(engine, folder, *replies, **more) as running:
        return await running.run("gateway", text, role=role, on_event=events.append), events


class Post:
    """Two applications on the same files, one for each engine, that many tests share: their workers are built once."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.base = make_files(folder)
        self._model = SwitchedModel()
        given = vault(folder) | settings
        self.apps = {engine: app(engine, folder / "data", grants={Model: self._model}, **given) for engine in ENGINES}

    async def take(
        self,
        engine: EngineName,
        text: str | Mapping[str, Any],
        *replies: Scripted,
        role: str | None = "user",
        model: Model | None = None,
        record: Path | None = None,
    ) -> tuple[TurnResult, list[Event]]:
        """Take a turn with a script, or with a model."""
        self.switch(*replies, model=model)
        events: list[Event] = []
        return await self.apps[engine].run("gateway", text, role=role, on_event=events.append, record=record), events

    def switch(self, *replies: Scripted, model: Model | None = None) -> None:
        """Put another model in the place of the one that there is."""
        self._model.now = model or ScriptedModel(*replies)

    def close(self) -> None:
        for one in self.apps.values():
            asyncio.run(one.close())


def code(result: TurnResult) -> str | None:
    return None if result.error is None else result.error.code


def tool_results(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [event["data"]["output"] for event in events if event["event"] == "on_tool_end"]


def names(events: Sequence[Event], kind: str) -> list[str]:
    return [event["name"] for event in events if event["event"] == kind]


_COMMAND = re.compile(r"^(CALL|SAY|LABEL) +(.*)", re.MULTILINE)
_DECODER = json.JSONDecoder()


class Obedient:
    """Does whatever any text tells it, in the order in which it reads it, and says everything that it has read.

    Texts are a user's and those of files: `CALL tool {json}` calls a tool, `SAY text` says a text, and `LABEL text` is what
    it answers where it is offered no tools. It is the worst model that there can be, but for what it does not know.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self.asked: list[tuple[tuple[Message, ...], tuple[str, ...]]] = []
        self._most = None if at_once else 1

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        self.asked.append((tuple(messages), tuple(tool.name for tool in tools)))
        heard = [message.text for message in messages if message.role in ("user", "tool")]
        commands = [found.groups() for text in heard for found in _COMMAND.finditer(text)]
        if not tools:
            return ModelReply(text=next((rest for kind, rest in commands if kind == "LABEL"), "route_bridge"), model="obedient")
        done = sum(len(message.calls) for message in messages)
        wanted = [made for made in (_made(rest) for kind, rest in commands if kind == "CALL") if made is not None][done:]
        if wanted:
            return ModelReply(calls=tuple(wanted[: self._most]), model="obedient")
        said = [rest for kind, rest in commands if kind == "SAY"]
        return ModelReply(text="\n".join(["I have read:", *heard, *said]), model="obedient")

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        said = await self.reply(messages, tools=tools)
        yield Chunk(text=said.text, calls=said.calls)

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        raise NotImplementedError


class Seen:
    """Everything that a turn tells of itself, by where it tells it."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.records: list[logging.LogRecord] = []
        self.told: list[Any] = []

    def sinks(self) -> dict[str, str]:
        lines = [LogFormatter(as_json=as_json, redactor=Redactor(PATTERNS)) for as_json in (True, False)]
        return {
            "logs": "\n".join(line.format(record) for record in self.records for line in lines) + str([vars(one) for one in self.records]),
            "spans": "\n".join(span.to_json() for span in self.spans.get_finished_spans()),
            "told": "\n".join(texts_of(self.told)),
        }

    def tell(self, result: TurnResult, events: Sequence[Event]) -> None:
        """Keep what came of a turn, and what it told on the way."""
        error = result.error
        self.told += [[*events], result.to_json(), repr(result), repr(result.state), str(error), json.dumps(result.to_json())]


def texts_of(value: Any) -> Iterator[str]:
    """Find every text, those of keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in cast("dict[str, Any]", value).items():
            yield from texts_of(list(pair))
    elif isinstance(value, list | tuple):
        for item in cast("list[Any]", value):
            yield from texts_of(item)


@contextmanager
def watching() -> Generator[Seen]:
    """Listen to the log at its loudest and to OpenTelemetry."""
    seen = Seen()
    with listening(seen.records, seen.spans):
        yield seen


def found(canary: str, text: str, *, part: int = 8) -> list[str]:
    """Find a canary in a text: as it is, as it is written elsewhere, and every part of it that is long enough."""
    parts = {canary[at : at + part] for at in range(len(canary) - part + 1)}
    return sorted(form for form in encodings(canary) | parts if form in text)


def order(tool: str, /, **arguments: Any) -> str:
    """Write what an obedient model takes for a call."""
    return f"CALL {tool} {json.dumps(arguments)}"


def _made(rest: str) -> ToolCall | None:
    """Read a call: the name of a tool, and its arguments as far as they are JSON."""
    name, _, written = rest.partition(" ")
    try:
        arguments, _ = _DECODER.raw_decode(written.strip() or "{}")
    except ValueError:
        return None
    return call(name, **cast("dict[str, Any]", arguments)) if isinstance(arguments, dict) else None
