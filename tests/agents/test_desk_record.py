"""Turns of the desk that were written down: taken again without the world, gone on with after a crash, nothing done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import pytest

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import MemoryReader, MemoryWriter, Model, SessionReader, SessionWriter
from interlock.engine import ENGINES, EngineName
from interlock.runtime.events import Event
from interlock.stores.memory import open_memory
from interlock.stores.sessions import open_sessions
from interlock.testing import Scripted, ScriptedModel, SwitchedModel
from tests.support.desk import Hooked, Store, add, calls, key_of, new_session, plan, said

OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
QUERY = calls(("inventory.query", {"query": "oak writing desk"}), add("2 * 3"))
SOLD = said("Noted.", slots_patch={"sku": "x"}, mark_done=True, memory_update="Likes oak.")
TURNS: dict[str, tuple[Scripted, ...]] = {
    "tools": (plan(slots_patch={"a": [1, 2.5, None, {"b": "ä"}]}), QUERY, SOLD),
    "a question": (plan(missing=["quantity"], next_question="How many?"), said("How many?")),
    "text": (plan("support.question"), "Hello.", said("Hello.", mark_done=True)),
    "a tool that fails": (plan(), calls(add("1 / 0")), said("I could not.", mark_done=True)),
    "no plan": ("```json```",),
    "a tool that is denied": (plan(), calls(("os.system", {"command": "x"}))),
    "tools again": (plan(), QUERY, said("", tools=[{"tool": "math.evaluate", "args": {}}])),
    "an empty message": (plan(missing=["x"], next_question="x?"), said(" ")),
    "an invalid session": (plan(), QUERY, said("Wait.", set_status="blocked")),
}


def nowhere(engine: EngineName, folder: Path) -> Interlock:
    """An application that has neither stores nor a model: whatever it asked would leave something in its folder."""
    return Interlock(Settings(engine=engine, data_dir=folder / "nowhere", model="openai:none", model_base_url="http://127.0.0.1:9"))


@pytest.mark.parametrize("replies", TURNS.values(), ids=TURNS)
async def test_a_recorded_turn_is_replayed_on_the_other_engine(
    store: Store, engine: EngineName, tmp_path: Path, replies: tuple[Scripted, ...]
):
    path = tmp_path / "record"
    before = await store.shared(engine, ScriptedModel(*replies)).run(
        "desk", {"text": "An oak desk", "customer_id": "anna"}, session=new_session(), record=path
    )
    replay = await nowhere(OTHER[engine], tmp_path).replay(path)
    assert replay.differences == ()
    assert replay.result.to_json() == before.to_json()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("text", ["I want to buy an oak writing desk 120 cm", "How do I return a product?", "2 + 2", "1 / 0"])
async def test_an_offline_turn_is_replayed(store: Store, engine: EngineName, tmp_path: Path, text: str):
    path = tmp_path / "record"
    before = await store.shared(engine, None).run("desk", text, session=new_session(), record=path)
    assert before.error is None
    replay = await nowhere(OTHER[engine], tmp_path).replay(path)
    assert (replay.differences, replay.result.output) == ((), before.output)


async def test_an_error_of_the_store_is_replayed(own_store: Store, engine: EngineName, tmp_path: Path):
    path = tmp_path / "record"
    async with own_store.app(engine, grants={Model: Hooked(plan(), "Hello.", said(), at=2, do=own_store.stop)}) as app:
        before = await app.run("desk", "Hello", session="s", record=path)
    assert before.error is not None
    assert before.error.code == "store_unavailable"
    replay = await nowhere(OTHER[engine], tmp_path).replay(path)
    assert (replay.differences, replay.result.error) == ((), before.error)


async def test_a_conversation_is_replayed_turn_by_turn(store: Store, engine: EngineName, tmp_path: Path):
    session, texts = new_session(), ("I want to buy an oak bar stool 45 cm", "How do I return a product?", "3")
    async with store.app(engine) as app:
        for number, text in enumerate(texts):
            assert (await app.run("desk", text, session=session, record=tmp_path / str(number))).error is None
    before = store.raw(session)
    elsewhere = nowhere(OTHER[engine], tmp_path)
    for number in (2, 0, 1):
        assert (await elsewhere.replay(tmp_path / str(number))).differences == ()
    assert store.raw(session) == before


async def test_the_record_names_the_graph_inside_which_a_call_was_made(store: Store, engine: EngineName, tmp_path: Path):
    path = tmp_path / "record"
    async with store.app(engine, *TURNS["tools"]) as app:
        await app.run("desk", {"text": "An oak desk", "customer_id": "anna"}, session=new_session(), record=path)
    entries = [line["entry"] for line in map(json.loads, path.read_text().splitlines()) if "entry" in line]
    assert [(entry["node"], f"{entry['capability']}.{entry['method']}") for entry in entries] == [
        ("load_or_create_state", "Clock.now"),
        ("load_or_create_state", "SessionReader.load"),
        ("read_memory", "MemoryReader.recall"),
        ("plan_goal/model", "Model.reply"),
        ("apply_plan", "Ids.new"),
        ("dispatch_specialist/tool_path/model", "Toolbox.offered"),
        ("dispatch_specialist/tool_path/model", "Model.reply"),
        ("dispatch_specialist/tool_path", "Toolbox.offered"),
        *[("dispatch_specialist", "ToolGateway.run")] * 2,
        ("dispatch_specialist/structured_path/model", "Model.reply"),
        ("validate_and_save_state", "SessionWriter.save"),
        ("write_memory", "MemoryWriter.remember"),
    ]


class Noting:
    """The real stores, with a note of every call."""

    def __init__(self, store: Store) -> None:
        self._sessions = open_sessions(f"unix://{store.address}", folder=store.folder, ttl_seconds=60, timeout_s=10)
        self._memory = open_memory(None, path=store.folder / "memory.sqlite", timeout_s=10)
        self.made: list[str] = []

    async def load(self, session_id: str) -> Any:
        self.made.append("load")
        return await self._sessions.load(session_id)

    async def save(self, session_id: str, document: Any, *, expected: int) -> None:
        self.made.append("save")
        await self._sessions.save(session_id, document, expected=expected)

    async def recall(self, subject: str) -> str | None:
        self.made.append("recall")
        return await self._memory.recall(subject)

    async def remember(self, subject: str, text: str) -> None:
        self.made.append("remember")
        await self._memory.remember(subject, text)

    async def aclose(self) -> None:
        await self._sessions.aclose()
        await self._memory.aclose()

    @property
    def grants(self) -> dict[type, object]:
        return dict.fromkeys((SessionReader, SessionWriter, MemoryReader, MemoryWriter), self)


CALLS = {"SessionReader.load": "load", "SessionWriter.save": "save", "MemoryReader.recall": "recall", "MemoryWriter.remember": "remember"}


class GoingOn:
    """An application that goes on with turns, with the real stores and a script for what is left to say."""

    def __init__(self, store: Store, engine: EngineName) -> None:
        self._noting, self._switched = Noting(store), SwitchedModel()
        self._app = store.app(engine, grants={Model: self._switched, **self._noting.grants})

    async def resume(self, path: Path, *replies: Scripted) -> tuple[TurnResult, list[str], ScriptedModel]:
        """Return how the turn ended, the calls of the stores that were made now, and the model."""
        self._noting.made = []
        self._switched.now = model = ScriptedModel(*replies or ["never said"])
        return await self._app.resume(path), self._noting.made, model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._app.close()
        await self._noting.aclose()


async def gone_on(store: Store, engine: EngineName, path: Path) -> tuple[TurnResult, list[str], ScriptedModel]:
    async with GoingOn(store, engine) as going_on:
        return await going_on.resume(path)


async def test_a_turn_stopped_at_any_point_is_resumed_on_the_other_engine(store: Store, engine: EngineName, tmp_path: Path):
    session, replies = new_session(), TURNS["tools"]
    async with store.app(engine, *replies) as app:
        whole = await app.run("desk", {"text": "An oak desk", "customer_id": "anna"}, session=session, record=tmp_path / "whole")
    after = store.raw(session)
    assert after is not None
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    entries = [json.loads(line).get("entry") for line in lines]
    async with GoingOn(store, OTHER[engine]) as going_on:
        for cut in range(1, len(lines)):
            known = [f"{entry['capability']}.{entry['method']}" for entry in entries[1:cut]]
            if "SessionWriter.save" not in known:
                store.ask("DEL", key_of(session))
            path = tmp_path / f"cut-{cut}"
            path.write_text("".join(lines[:cut]) + '{"entry": {"tu')  # the last line is torn
            told = known.count("Model.reply")
            result, made, model = await going_on.resume(path, *replies[told:])
            assert (result.error, result.output) == (None, whole.output)
            assert made == [CALLS[name] for entry in entries[cut:-1] if (name := f"{entry['capability']}.{entry['method']}") in CALLS]
            assert len(model.messages) == 3 - told
            assert store.document(session)["version"] == 1
    assert (await nowhere(engine, tmp_path).replay(tmp_path / "cut-5")).differences == ()


async def test_a_save_that_was_made_but_not_recorded_is_recognised(store: Store, engine: EngineName, tmp_path: Path):
    session, replies = new_session(), TURNS["tools"]
    async with store.app(engine, *replies) as app:
        whole = await app.run("desk", {"text": "An oak desk", "customer_id": "anna"}, session=session, record=tmp_path / "whole")
    before = store.raw(session)
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    path = tmp_path / "cut"
    path.write_text("".join(lines[:-3]))  # all but the save, what is remembered and the ending
    result, made, model = await gone_on(store, OTHER[engine], path)
    assert (result.error, result.output) == (None, whole.output)
    assert (made, model.messages, store.raw(session)) == (["save", "remember"], [], before)


CRASH = """
    import asyncio, json, os, sys
    from pathlib import Path
    from interlock import Interlock, Settings
    from interlock.capabilities import MemoryReader, MemoryWriter, Model
    from interlock.testing import ScriptedModel

    class Memory:
        async def recall(self, subject):
            return None

        async def remember(self, subject, text):
            os._exit(9)

    async def main():
        replies = json.loads(sys.argv[4])
        grants = {Model: ScriptedModel(*replies), MemoryReader: Memory(), MemoryWriter: Memory()}
        settings = Settings(engine=sys.argv[1], data_dir=Path(sys.argv[2]), session_url=sys.argv[3])
        given, record = {"text": "An oak desk", "customer_id": "anna"}, Path(sys.argv[2]) / "record"
        await Interlock(settings, grants=grants).run("desk", given, session="crash", record=record)

    asyncio.run(main())
"""


async def test_events_are_replayed(store: Store, engine: EngineName, tmp_path: Path):
    before: list[Event] = []
    after: list[Event] = []
    path = tmp_path / "record"
    async with store.app(engine, *TURNS["tools"]) as app:
        await app.run("desk", {"text": "An oak desk", "customer_id": "anna"}, session=new_session(), record=path, on_event=before.append)
    await nowhere(OTHER[engine], tmp_path).replay(path, on_event=after.append)
    assert after == before
