"""Turns of the analyst that were written down: taken again without store, model or tools; gone on with after a crash, saved once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings, TurnResult, attempts
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelUnavailable
from interlock.runtime.events import Event
from interlock.stores.checkpoints import open_checkpoints
from interlock.testing import Scripted
from interlock_agents.analyst.graph import analyst
from tests.support.analyst import KEY, LONG, add, app, call, said, search, take, talk, tools, wants

OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
THREE = wants(add("17.5 * 24", id="a"), add("2 + 3", id="b"), search("net revenue", id="c"), add("{{b.value}} * 2", id="d"))
TURNS: dict[str, tuple[Scripted, ...]] = {
    "talk": (talk(), "Good day."),
    "tools at once": (THREE, ["Four hundred ", "and twenty [a]."]),
    "nothing found": (wants(search("zzqx")), wants(search("churn")), "Churn [call-2]."),
    "never found": (*(wants(search(f"zzqx{number}")) for number in range(3)), "I give up."),
    "tools that fail": (wants(call("note", text="x"), call("shell", command="id"), add("1 / 0")), talk(), "I could not."),
    "a question back": (talk(ask="Which year?"),),
    "a stream that dies": (THREE, ["Four ", "hun", ModelUnavailable("Gone.")]),
    "a plan that is none": ("```json```",),
}
SETTINGS = tools(note="fails", leak="leaks")


def nowhere(engine: EngineName, folder: Path) -> Interlock:
    """An application that has neither a store nor a model: whatever it asked would leave something in its folder."""
    settings: dict[str, Any] = {"data_dir": folder / "nowhere", "model": "openai:none", "model_base_url": "http://127.0.0.1:9"}
    return Interlock(Settings(engine=engine, **settings))


async def recorded(engine: EngineName, folder: Path, text: str, *replies: Scripted, name: str = "record", **more: Any) -> TurnResult:
    async with app(engine, folder, *replies, **(SETTINGS | more)) as running:
        return await running.run("analyst", text, session="s", record=folder / name)


def calls(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [f"{line['entry']['capability']}.{line['entry']['method']}" for line in lines if "entry" in line]


def forget(folder: Path) -> None:
    """Delete the store."""
    for path in folder.glob("sessions.sqlite*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("replies", TURNS.values(), ids=TURNS)
async def test_a_recorded_turn_is_replayed_on_the_other_engine(engine: EngineName, tmp_path: Path, replies: tuple[Scripted, ...]):
    await take(engine, tmp_path, "One.", talk(), "First.")
    events: list[Event] = []
    async with app(engine, tmp_path, *replies, **SETTINGS) as running:
        before = await running.run("analyst", "Two.", session="s", record=tmp_path / "record", on_event=events.append)
    forget(tmp_path)
    for other in ENGINES:
        again: list[Event] = []
        replay = await nowhere(other, tmp_path).replay(tmp_path / "record", on_event=again.append)
        assert replay.differences == ()
        assert (replay.result.to_json(), replay.result.state, replay.result.path) == (before.to_json(), before.state, before.path)
        assert again == events
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "sessions.sqlite").exists()


@pytest.mark.parametrize(
    "text", ["Hello!", "What is net revenue; what is 17.5 * 24; what is 2 + 3?", "What does the handbook say about attrition?"]
)
async def test_an_offline_turn_is_replayed(engine: EngineName, tmp_path: Path, text: str):
    for number in range(2):
        before = await recorded(engine, tmp_path, text, name=str(number))
        assert before.error is None
    forget(tmp_path)
    for number in (1, 0):
        replay = await nowhere(OTHER[engine], tmp_path).replay(tmp_path / str(number))
        assert replay.differences == ()
        assert len(said(replay.result)) == 2 * number + 2


async def test_concurrent_calls_are_replayed_in_the_recorded_order(engine: EngineName, tmp_path: Path):
    plan = wants(call("slow", text="x", id="a"), add(id="b"), call("slow", text="y", id="c"), add("2 + 2", id="d"))
    events: list[Event] = []
    async with app(engine, tmp_path, plan, "Done [a].", **tools(slow="takes_a_while")) as running:
        before = await running.run("analyst", "All.", session="s", record=tmp_path / "record", on_event=events.append)
    ends = [event["name"] for event in events if event["event"] == "on_tool_end"]
    assert ends == ["calculate", "calculate", "slow", "slow"]
    again: list[Event] = []
    replay = await nowhere(OTHER[engine], tmp_path).replay(tmp_path / "record", on_event=again.append)
    assert (replay.differences, again) == ((), events)
    assert replay.result.state["tool_outputs"] == before.state["tool_outputs"]


async def test_a_secret_of_a_tool_is_not_in_the_record(engine: EngineName, tmp_path: Path):
    await recorded(engine, tmp_path, "Leak.", wants(call("leak", text="x")), "Done.")
    assert KEY not in (tmp_path / "record").read_text()
    assert (await nowhere(OTHER[engine], tmp_path).replay(tmp_path / "record")).differences == ()


async def test_an_error_of_the_store_is_replayed(engine: EngineName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts, "_SHORTEST_S", 0.001)
    (tmp_path / "text").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    urls = [f"sqlite:{tmp_path}/text/a.sqlite", f"sqlite:{tmp_path}/folder", f"postgresql://u:hunter2@/x?host={tmp_path}"]
    for number, url in enumerate(urls):
        before = await recorded(engine, tmp_path, "Hi.", talk(), "Hi.", name=str(number), checkpoint_url=url)
        assert before.error is not None
        assert before.error.code == "store_unavailable"
        replay = await nowhere(OTHER[engine], tmp_path).replay(tmp_path / str(number))
        assert (replay.differences, replay.result.error) == ((), before.error)


# After a crash


async def versions(folder: Path) -> list[str]:
    """The ids of all checkpoints of the session, the newest first."""
    checkpoints = open_checkpoints(None, path=folder / "sessions.sqlite", types=analyst.state.classes, seal=analyst.fingerprint)
    try:
        saver = await checkpoints.saver()
        at: Any = {"configurable": {"thread_id": "analyst:s"}}
        return [one.checkpoint["id"] async for one in saver.alist(at)]
    finally:
        await checkpoints.aclose()


def keep(folder: Path, name: str) -> None:
    """Put the store aside."""
    shutil.copy(folder / "sessions.sqlite", folder / name)


def bring_back(folder: Path, name: str) -> None:
    forget(folder)
    shutil.copy(folder / name, folder / "sessions.sqlite")


async def resumed(engine: EngineName, folder: Path, path: Path, *replies: Scripted) -> TurnResult:
    async with app(engine, folder, *(replies or ("never said",)), **SETTINGS) as running:
        return await running.resume(path)


async def test_a_turn_stopped_at_any_point_is_resumed_and_saved_once(engine: EngineName, tmp_path: Path):
    replies = TURNS["tools at once"]
    await take(engine, tmp_path, "One.", talk(), "First.")
    keep(tmp_path, "before")
    whole = await recorded(engine, tmp_path, "Two.", *replies, name="whole")
    assert whole.path == LONG
    keep(tmp_path, "after")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    made = calls(tmp_path / "whole")
    assert (made[0], made[-1]) == ("Sessions.load", "Sessions.save")
    for cut in range(1, len(lines)):
        known = made[: cut - 1]
        # Where only the save is missing the process may have died before it, or after it.
        for store in ("before", "after") if cut == len(lines) - 2 else ("after",) if "Sessions.save" in known else ("before",):
            bring_back(tmp_path, store)
            path = tmp_path / f"cut-{cut}-{store}"
            path.write_text("".join(lines[:cut]) + '{"entry": {"tu')  # the last line is torn
            asked = sum(name.startswith("Model.") for name in known)
            result = await resumed(OTHER[engine], tmp_path, path, *replies[asked:])
            assert (result.error, result.output) == (None, whole.output)
            assert said(result) == ["One.", "First.", "Two.", "Four hundred and twenty [a]."]
            assert len(await versions(tmp_path)) == 2
            assert len(calls(path)) == len(made)
            assert (await nowhere(engine, tmp_path).replay(path)).differences == ()
    last = await take(engine, tmp_path, "Three.", talk(), "Third.")
    assert said(last) == [*said(whole), "Three.", "Third."]


async def test_resuming_a_turn_of_a_changed_session_is_a_conflict(engine: EngineName, tmp_path: Path):
    await take(engine, tmp_path, "One.", talk(), "First.")
    keep(tmp_path, "before")
    await recorded(engine, tmp_path, "Two.", talk(), "Second.", name="whole")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    for begun in ("before", "after"):  # it was saved, or it was not, when somebody else went on
        if begun == "before":
            keep(tmp_path, "after")
        bring_back(tmp_path, begun)
        moved = await take(engine, tmp_path, "Three.", talk(), "Third.")
        ids = await versions(tmp_path)
        path = tmp_path / f"cut-{begun}"
        path.write_text("".join(lines[:-2]))
        result = await resumed(OTHER[engine], tmp_path, path)
        assert result.error is not None
        assert (result.error.code, result.status) == ("state_conflict", "error")
        assert await versions(tmp_path) == ids
        assert said(await take(engine, tmp_path, "Four.", talk(), "Fourth."))[:-2] == said(moved)
        assert (await nowhere(engine, tmp_path).replay(path)).differences == ()


async def test_a_turn_recorded_as_saved_is_not_saved_again(engine: EngineName, tmp_path: Path):
    await recorded(engine, tmp_path, "One.", talk(), "First.", name="whole")
    await take(engine, tmp_path, "Two.", talk(), "Second.")
    ids = await versions(tmp_path)
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    (tmp_path / "cut").write_text("".join(lines[:-1]))
    result = await resumed(OTHER[engine], tmp_path, tmp_path / "cut")
    assert (result.error, result.output, await versions(tmp_path)) == (None, "First.", ids)


CRASH = """
    import asyncio, json, os, sys
    from pathlib import Path
    from interlock import Interlock, Settings
    from interlock.stores.session_state import CheckpointedSessions
    from interlock.capabilities import Model
    from interlock.testing import ScriptedModel

    engine, folder, moment, replies = sys.argv[1:]
    save = CheckpointedSessions.save

    async def dies(self, *args, **more):
        if moment == "after":
            await save(self, *args, **more)
        os._exit(9)

    async def main():
        grants = {Model: ScriptedModel(*json.loads(replies))}
        settings = Settings(engine=engine, data_dir=Path(folder))
        CheckpointedSessions.save = dies
        await Interlock(settings, grants=grants).run("analyst", "Two.", session="s", record=Path(folder) / "record")

    asyncio.run(main())
"""
