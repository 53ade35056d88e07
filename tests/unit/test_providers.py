"""Which adapter stands behind a capability: granted by the caller, else by the agent's provider, else by the library's."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import interlock
from interlock import END, Agent, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.capabilities import Clock, Memory, MemoryReader, MemoryWriter, Model
from interlock.discovery import AGENTS, agent_of, load_agent
from interlock.errors import SettingsInvalid
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.resolver import Providers
from interlock.testing import FixedClock, ScriptedModel


class Notes:
    async def recall(self, subject: str) -> str | None:
        return None

    async def remember(self, subject: str, text: str) -> None:
        pass


def test_a_grant_of_the_whole_is_a_grant_of_its_parts():
    notes = Notes()
    found = Providers(Settings(), {Memory: notes}).adapters(load_agent("desk"), (MemoryReader, MemoryWriter))
    assert found[MemoryReader] is found[MemoryWriter] is notes


def test_a_part_that_is_granted_itself_comes_before_the_whole():
    reader, whole = Notes(), Notes()
    found = Providers(Settings(), {Memory: whole, MemoryReader: reader}).adapters(load_agent("desk"), (MemoryReader, MemoryWriter))
    assert found[MemoryReader] is reader
    assert found[MemoryWriter] is whole


def test_what_is_not_granted_comes_from_the_settings():
    clock = FixedClock()
    found = Providers(Settings(), {Clock: clock}).adapters(load_agent("desk"), (Clock, MemoryReader))
    assert found[Clock] is clock
    assert type(found[MemoryReader]).__name__ == "StoredMemory"


# An agent with providers of its own


class Shelf(Capability, Protocol):
    async def fetch(self, name: str) -> str: ...


class Librarian(Capability, Protocol):
    async def advise(self, text: str) -> str: ...


@dataclass
class State:
    text: str
    answer: str = ""


class Advised(Outcome):
    answer: str


async def advise(text: str, *, librarian: Librarian) -> Advised:
    return Advised(answer=await librarian.advise(text))


library = Graph("library", state=State, entry=advise, nodes=[node(advise, goes={Advised: END})], takes=["text"], gives="answer")


class Log:
    """What happened to the adapters, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []


class WoodenShelf:
    def __init__(self, log: Log) -> None:
        self._log = log

    async def fetch(self, name: str) -> str:
        return f"the book '{name}'"

    async def aclose(self) -> None:
        self._log.lines.append("shelf closed")


class Advisor:
    """Is handed the shelf and the model, as a node would be."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def advise(self, text: str, *, shelf: Shelf, model: Model) -> str:
        reply = await model.reply([])
        return f"{reply.text}: {await shelf.fetch(text)}"

    async def aclose(self) -> None:
        self._log.lines.append("advisor closed")


def with_providers(log: Log) -> Agent:
    def open_shelf(context: Context) -> Shelf:
        log.lines.append("shelf opened")
        return context.closing(WoodenShelf(log))

    def open_advisor(context: Context) -> object:
        log.lines.append(f"advisor opened{' to replay' if context.replaying else ''}")
        return context.closing(Advisor(log))

    async def check_shelf(context: Context) -> AsyncIterator[Check]:
        context.closing(WoodenShelf(log))
        yield Check(what="shelf", state="ok", found=f"in {context.settings.folder}")

    async def check_advisor(context: Context) -> AsyncIterator[Check]:
        raise SettingsInvalid("There is no advisor today.")
        yield Check(what="", state="ok", found="")

    providers = (
        Provider(capabilities=(Shelf,), open=open_shelf, check=check_shelf),
        Provider(capabilities=(Librarian,), open=open_advisor, parts=(Shelf, Model), check=check_advisor),
    )
    return replace(agent_of(library), providers=providers)


async def test_an_agent_brings_its_own_providers(engine: Any, tmp_path: Path):
    log = Log()
    agent, other = with_providers(log), with_providers(log)
    settings = Settings(engine=engine, data_dir=tmp_path)
    async with Interlock(settings, grants={Model: ScriptedModel("Read this")}) as app:
        assert log.lines == []  # nothing is opened before it is needed
        for _ in range(2):
            assert (await app.run(agent, "Emma")).output == "Read this: the book 'Emma'"
        assert log.lines == ["shelf opened", "advisor opened"]
        await app.run(replace(agent, name="again"), "Emma")
        assert log.lines == ["shelf opened", "advisor opened"]  # shared by whoever has the same provider
        await app.run(other, "Emma")
    assert log.lines[2:] == ["shelf opened", "advisor opened", *["advisor closed", "shelf closed"] * 2]  # the last one first


async def test_a_grant_comes_before_the_provider_of_an_agent(tmp_path: Path):
    class Granted:
        async def advise(self, text: str) -> str:
            return "granted"

    log = Log()
    async with Interlock(Settings(engine="direct", data_dir=tmp_path), grants={Librarian: Granted()}) as app:
        assert (await app.run(with_providers(log), "Emma")).output == "granted"
    assert log.lines == []


async def test_a_replay_opens_no_parts(tmp_path: Path):
    log, record = Log(), tmp_path / "turn.jsonl"
    agent, settings = with_providers(log), Settings(engine="direct", data_dir=tmp_path)
    async with Interlock(settings, grants={Model: ScriptedModel("Read this")}) as app:
        await app.run(agent, "Emma", record=record)
    log.lines.clear()
    async with Interlock(settings) as app:
        assert (await app.replay(record, graph=agent)).differences == ()
    assert log.lines == ["advisor opened to replay", "advisor closed"]


async def test_a_provider_says_for_itself_what_the_doctor_finds_and_what_it_opens_is_closed(tmp_path: Path):
    log = Log()
    agent = with_providers(log)
    found = [check async for check in Providers(Settings(data_dir=tmp_path), {}).check(agent.providers, agent)]
    assert found == [
        Check(what="shelf", state="ok", found=f"in {tmp_path}"),
        Check(what="Librarian", state="broken", found="There is no advisor today."),
    ]
    assert log.lines == ["shelf closed"]


# The name under which stores of existing users have their memory.
SPARED = {"stores/memory.py"}


def test_the_kernel_names_no_agent():
    root = Path(interlock.__file__).parent
    named = re.compile(rf"interlock_agents\b|[\"'](?:{'|'.join(AGENTS)})[\"']")
    files = {file.relative_to(root).as_posix(): file.read_text("utf-8") for file in root.rglob("*.py")}
    kernel = {name: text for name, text in files.items() if name not in SPARED}
    assert len(kernel) > 100
    assert [f"{name}: {found[0]}" for name, text in kernel.items() for found in named.finditer(text)] == []
