"""A turn ends where its journal cannot vouch for what was done: whatever a node does about it, nothing is paid for twice."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.agent import Agent
from interlock.capabilities.capability import keyed
from interlock.capabilities.human import Human, Question
from interlock.engine import EngineName
from interlock.errors import JournalFailed, NothingWaits, StoreFull, StoreUnavailable, TurnCancelled
from interlock.reply import Reply
from interlock.runtime.events import Event
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.recording import MemoryJournal, read_record
from interlock.runtime.targets import Composed, Subgraph
from interlock.runtime.turns import TurnEnd, TurnFilter, TurnStore, Verdict, Writes


class State(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Shop(Capability, Protocol):
    async def buy(self, what: str) -> str: ...

    def deliver(self, what: str) -> AsyncGenerator[str, None]: ...


class KeyedShop(Capability, Protocol):
    @keyed
    async def buy(self, what: str) -> str: ...


class Errand(Capability, Protocol):
    async def run(self, text: str) -> str: ...


def fill_up(record: Path) -> None:
    """Let the disk be full for whoever has this file open."""
    full = os.open("/dev/full", os.O_WRONLY)
    for opened in Path("/proc/self/fd").iterdir():
        if opened.is_symlink() and opened.readlink() == record:
            os.dup2(full, int(opened.name))
    os.close(full)


class Till:
    """A shop where everything that is bought is paid for, and before which the disk may have filled up."""

    def __init__(self, record: Path | None = None) -> None:
        self.paid: list[str] = []
        self._record = record

    def _pay(self, what: str) -> None:
        self.paid.append(what)
        if self._record is not None:
            fill_up(self._record)

    async def buy(self, what: str) -> str:
        await asyncio.sleep(0)
        self._pay(what)
        return f"one {what}"

    async def deliver(self, what: str) -> AsyncGenerator[str, None]:
        self._pay(what)
        for part in ("one", " ", what):
            yield part


async def retry(text: str, *, shop: Shop) -> Done:
    for _ in range(3):
        try:
            return Done(out=await shop.buy(text))
        except Exception:  # noqa: BLE001, S112 - what is tested
            continue
    return Done(out="gave up")


async def retry_any_error(text: str, *, shop: Shop) -> Done:
    for _ in range(3):
        try:
            return Done(out=await shop.buy(text))
        except BaseException:  # noqa: BLE001, S112 - what is tested
            continue
    return Done(out="gave up")


async def return_at_the_end(text: str, *, shop: Shop) -> Done:
    bought = "nothing"
    try:
        bought = await shop.buy(text)
    finally:
        return Done(out=bought)  # noqa: B012 - what is tested


async def gather(text: str, *, shop: Shop) -> Done:
    found = await asyncio.gather(shop.buy(text), return_exceptions=True)
    return Done(out=str(found))


async def group(text: str, *, shop: Shop) -> Done:
    async with asyncio.TaskGroup() as tasks:
        bought = tasks.create_task(shop.buy(text))
    return Done(out=bought.result())


async def leave_a_task(text: str, *, shop: Shop) -> Done:
    task = asyncio.create_task(shop.buy(text))
    await asyncio.wait([task])
    return Done(out="done")


async def read(text: str, *, shop: Shop) -> Done:
    for _ in range(3):
        try:
            return Done(out="".join([part async for part in shop.deliver(text)]))
        except BaseException:  # noqa: BLE001, S112 - what is tested
            continue
    return Done(out="gave up")


async def read_the_beginning(text: str, *, shop: Shop) -> Done:
    async for part in shop.deliver(text):
        return Done(out=part)
    return Done(out="")


async def close_early(text: str, *, shop: Shop) -> Done:
    stream: Any = shop.deliver(text)
    first = await anext(stream)
    try:
        await stream.aclose()
    except BaseException:  # noqa: BLE001 - what is tested
        first = "closed"
    return Done(out=first)


async def send_out(text: str, *, errand: Errand) -> Done:
    for _ in range(3):
        try:
            return Done(out=await errand.run(text))
        except BaseException:  # noqa: BLE001, S112 - what is tested
            continue
    return Done(out="gave up")


class Runner:
    """An adapter that is made of a shop, and never gives up."""

    async def run(self, text: str, *, shop: Shop) -> str:
        for _ in range(3):
            try:
                return await shop.buy(text)
            except BaseException:  # noqa: BLE001, S112 - what is tested
                continue
        return "gave up"


def one(run: Any, name: str = "one") -> Graph:
    return Graph(name, state=State, entry=run, nodes=[node(run, goes={Done: END})], takes=["text"], gives="out")


def grants(till: Till, *, inside: bool = False) -> dict[type, object]:
    errand = Subgraph(one(retry_any_error, "inner")) if inside else Composed(Runner(), parts={Shop: till})
    return {Shop: till, Errand: errand}


CASES: list[tuple[Any, str]] = [
    (run, "")
    for run in (
        retry,
        retry_any_error,
        return_at_the_end,
        gather,
        group,
        leave_a_task,
        read,
        read_the_beginning,
        close_early,
        send_out,
    )
]


def unended(events: list[Event]) -> list[str]:
    begun = [event["run_id"] for event in events if event["event"].endswith("_start")]
    ended = [event["run_id"] for event in events if event["event"].endswith(("_end", "_error"))]
    return [one for one in begun if one not in ended]


@pytest.mark.parametrize(("run", "inside"), [*CASES, (send_out, "/retry_any_error")])
async def test_a_record_that_cannot_be_written_ends_the_turn_no_matter_what_the_node_does(
    run: Any, inside: str, engine: EngineName, tmp_path: Path
):
    path = tmp_path / "turn.jsonl"
    till = Till(path)
    events: list[Event] = []
    graph = one(run)
    app = Interlock(Settings(engine=engine), grants=grants(till, inside=bool(inside)))
    result = await app.run(graph, "pear", record=path, on_event=events.append)
    assert till.paid == ["pear"]
    assert (result.status, result.error and result.error.code) == ("error", "store_full")
    assert result.error is not None
    assert "cannot be written" in result.error.message
    assert result.error.node == f"{run.__name__}{inside}"
    assert unended(events) == []
    assert read_record(path).footer is None, "it can be resumed when there is room again"
    again = Till()
    resumed = await Interlock(Settings(engine=engine), grants=grants(again, inside=bool(inside))).resume(path, graph=graph)
    assert (resumed.error, again.paid) == (None, ["pear"])
    assert (await Interlock(Settings(engine=engine), grants=grants(again, inside=bool(inside))).replay(path, graph=graph)).differences == ()


class Broken(MemoryJournal):
    """Fails with the given errors, one after the other."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def append(self, entries: Sequence[Entry]) -> None:
        raise self.errors.pop(0)


async def test_a_journal_that_fails_in_its_own_way_is_a_typed_error_too():
    journal = Journal("t", store=Broken(ZeroDivisionError()))
    with pytest.raises(JournalFailed, match="ZeroDivisionError") as raised:
        await journal.slot(1, "n", "C", "m", "k").write(result=1)
    assert raised.value.reason.code == "store_unavailable"


async def test_the_first_failure_of_a_journal_is_why_the_turn_ends():
    journal = Journal("t", store=Broken(StoreFull("Full."), StoreUnavailable("Gone.")))
    for slot in [journal.slot(1, "n", "C", "m", "k"), journal.slot(2, "n", "C", "m", "k")]:  # Both are under way.
        with pytest.raises(JournalFailed, match="Full") as raised:
            await slot.write(result=1)
        assert raised.value.reason is journal.failure
    with pytest.raises(JournalFailed, match="Full"):
        journal.slot(3, "n", "C", "m", "k")
    await Journal("t").slot(1, "n", "C", "m", "k").write(result=1)  # Without a store nothing can fail.


class FailsOnce(MemoryJournal):
    """Loses the first batch and stores the next."""

    has_failed = False

    async def append(self, entries: Sequence[Entry]) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise StoreFull("Full.")
        await super().append(entries)


async def test_nothing_is_stored_after_entries_that_were_lost():
    store = FailsOnce()
    await store.claim("t", 1)
    journal = Journal("t", store=store)
    slots = [journal.slot(1, "n", "C", "m", "k"), journal.slot(2, "n", "C", "m", "k")]  # Both are under way.
    for slot in slots:
        with pytest.raises(JournalFailed, match="Full"):
            await slot.write(result=1)
    assert store.turns["t"].entries == []


class SlowStore(MemoryJournal):
    """Takes its time for the first batch."""

    is_slow = True

    async def append(self, entries: Sequence[Entry]) -> None:
        if self.is_slow:
            self.is_slow = False
            await asyncio.Event().wait()
        await super().append(entries)


async def test_entries_whose_commit_was_cancelled_are_stored_before_the_next_call_goes_on():
    store = SlowStore()
    await store.claim("t", 1)
    journal = Journal("t", store=store)
    cancelled = asyncio.create_task(journal.slot(1, "n", "C", "m", "k").write(result=1))
    await asyncio.sleep(0)
    following = asyncio.create_task(journal.commit())
    await asyncio.sleep(0)
    assert not journal.is_stored
    cancelled.cancel()
    await following
    assert ([entry.sequence for entry in store.turns["t"].entries], journal.is_stored) == ([1], True)


async def buy_two(text: str, *, shop: Shop) -> Done:
    return Done(out=f"{await shop.buy(text)}, {await shop.buy('plum')}")


async def buy_other_things(text: str, *, shop: Shop) -> Done:
    try:
        return Done(out=f"{await shop.buy(f'large {text}')}, {await shop.buy('plum')}")
    except Exception:  # noqa: BLE001 - a node that falls back to something else
        return Done(out=await shop.buy("anything"))


async def buy_less(text: str, *, shop: Shop) -> Done:
    return Done(out=await shop.buy("plum"))


async def buy_nothing(text: str, *, shop: Shop) -> Done:
    return Done(out="nothing")


async def have_it_delivered(text: str, *, shop: Shop) -> Done:
    return Done(out="".join([part async for part in shop.deliver(text)]))


def renamed(run: Any) -> Graph:
    """Make a graph with the same contracts as every other of these, and another body."""

    async def body(text: str, *, shop: Shop) -> Done:
        return await run(text, shop=shop)

    body.__name__ = body.__qualname__ = "body"
    return one(body)


async def killed_after(path: Path, calls: int, run: Any, engine: EngineName) -> Till:
    """Record a turn of which so many calls came to their end."""
    till = Till()
    await Interlock(Settings(engine=engine), grants=grants(till)).run(renamed(run), "pear", record=path)
    cut(path, calls)
    return till


def cut(path: Path, calls: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: calls + 1]))


@pytest.mark.parametrize("changed", [buy_other_things, buy_less, buy_nothing, have_it_delivered])
async def test_a_node_that_was_changed_pays_nothing_twice_when_its_turn_is_resumed(changed: Any, engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await killed_after(path, 1, buy_two, engine)
    before = path.read_bytes()
    till = Till()
    app = Interlock(Settings(engine=engine), grants=grants(till))
    result = await app.resume(path, graph=renamed(changed))
    assert (result.status, result.error and result.error.code) == ("error", "replay_diverged")
    assert result.error is not None
    assert "'Shop.buy' in 'body'" in result.error.message
    assert till.paid == []
    assert path.read_bytes() == before, "with the code of then it can still be resumed"
    assert (await app.resume(path, graph=renamed(buy_two))).output == "one pear, one plum"
    assert till.paid == ["plum"]


async def test_a_changed_node_that_catches_everything_is_not_replayed_as_something_else(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await killed_after(path, 3, buy_two, engine)
    replay = await Interlock(Settings(engine=engine), grants=grants(Till())).replay(path, graph=renamed(buy_other_things))
    assert replay.result.error is not None
    assert replay.result.error.code == "replay_diverged"


async def all_at_once(text: str, *, shop: Shop) -> Done:
    async def buy(what: str, first: Awaitable[object]) -> str:
        await first
        return f"{await shop.buy(what)} and {await shop.buy(f'second {what}')}"

    return Done(out=", ".join(await asyncio.gather(*(buy(what, asyncio.sleep(0)) for what in ("a", "b", "c", text)))))


@pytest.mark.parametrize("kept", range(9))
async def test_calls_that_were_made_at_once_are_made_again_where_they_are_missing(kept: int, engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    whole = await killed_after(path, 8, all_at_once, engine)
    lines = path.read_text().splitlines(keepends=True)
    for left_out in range(kept + 1):
        # Of the first calls of all, which were under way at once, any may have been the one that had not ended.
        rest = [line for number, line in enumerate(lines[: kept + 1]) if number != left_out or left_out in {0, *range(5, 9)}]
        path.write_text("".join(line for line in rest if not _follows(line, lines[left_out])))
        recorded = len(read_record(path).entries)
        till = Till()
        result = await Interlock(Settings(engine=engine), grants=grants(till)).resume(path, graph=renamed(all_at_once))
        assert result.error is None
        assert len(till.paid) == 8 - recorded
        assert set(till.paid) <= set(whole.paid)


def _follows(line: str, other: str) -> bool:
    """Tell whether a call was made after another had ended: its own task's second."""
    first = '"one a"', '"one b"', '"one c"', '"one pear"'
    return any(f'"result":{text}' in other and f'"result":"one second {text[5:]}' in line for text in first)


async def taste_and_buy(text: str, *, shop: Shop) -> Done:
    stream: Any = shop.deliver(text)
    first = await anext(stream)
    return Done(out=f"{first} {await shop.buy(text)}")  # and the stream is closed, and written down, when the node ends


async def test_a_stream_that_was_still_open_is_read_again_before_what_was_recorded_after_it(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    await killed_after(path, 1, taste_and_buy, engine)
    assert [entry.method for entry in read_record(path).entries] == ["buy"]
    till = Till()
    app = Interlock(Settings(engine=engine), grants=grants(till))
    result = await app.resume(path, graph=renamed(taste_and_buy))
    assert (result.output, till.paid) == ("one one pear", ["pear"])


async def wait_for_ever(text: str, *, shop: Shop) -> Done:
    return Done(out="is never run")


async def cancelled_by_task(app: Interlock, path: Path, before: Callable[[], None] | None = None) -> None:
    bought = asyncio.Event()

    async def wait_for_ever(text: str, *, shop: Shop) -> Done:
        await shop.buy(text)
        bought.set()
        await asyncio.Event().wait()
        return Done(out="never")

    task = asyncio.create_task(app.run(one(wait_for_ever), "pear", record=path))
    await bought.wait()
    if before is not None:
        before()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancelled_turn_has_ended_and_says_so(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    till = Till()
    app = Interlock(Settings(engine=engine), grants=grants(till))
    await cancelled_by_task(app, path)
    ending = read_record(path).footer
    assert ending is not None
    assert ending.result["status"] == "cancelled"
    assert ending.result["error"] == {"code": "cancelled", "message": "The turn was cancelled.", "node": "wait_for_ever"}
    assert ending.result["path"] == ["wait_for_ever"]
    for again in (app.resume, app.replay):
        with pytest.raises(TurnCancelled, match=r"was cancelled.*run it again"):
            await again(path, graph=one(wait_for_ever))
    assert till.paid == ["pear"]


async def ask_and_buy(text: str, *, human: Human, shop: Shop) -> Done:
    answer = await human.ask(Question(text="Which?"))
    return Done(out=await shop.buy(answer or "nothing"))


def asking(run: Any = ask_and_buy) -> Agent:
    graph = one(run)
    return Agent(
        name="asking",
        summary="",
        graphs=(graph,),
        entries={None: graph},
        reply=lambda state: Reply(output=state.get("out")),
        has_sessions=True,
        pauses=True,
    )


async def test_closing_a_stream_early_leaves_no_record_to_go_on_with(engine: EngineName, tmp_path: Path):
    async def linger(text: str, *, shop: Shop) -> Done:
        await shop.buy(text)
        await asyncio.Event().wait()
        return Done(out="never")

    app = Interlock(Settings(engine=engine, data_dir=tmp_path), grants=grants(Till()))
    stream = app.stream(asking(linger), {"text": "x"}, session="s")
    await anext(stream)
    await stream.aclose()
    assert [turn.status for turn in await app.turns.store.find(TurnFilter(session="s"))] == ["cancelled"]
    assert (await app.run(asking(), {"text": "x"}, session="s")).status == "waiting"


class FailsToWrite:
    """A turn store that is full once the shop was paid."""

    def __init__(self, store: TurnStore, till: Till) -> None:
        self._store, self._till = store, till

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        if self._till.paid:
            raise StoreFull("The disk is full.")
        return await self._store.write(turn, epoch, writes)

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        if self._till.paid:
            raise StoreFull("The disk is full.")
        return await self._store.end(turn, epoch, end, writes)


async def test_a_payment_whose_entry_could_not_be_stored_is_not_made_again(engine: EngineName, monkeypatch: pytest.MonkeyPatch):
    app = Interlock(Settings(engine=engine), grants=grants(till := Till()))
    agent, whole = asking(), app.turns.store
    assert (await app.run(agent, {"text": "x"}, session="s")).status == "waiting"
    monkeypatch.setattr(app.turns, "store", FailsToWrite(whole, till))
    app.turns.worker.lease_s = 0.01
    result = await app.answer(agent, "pear", session="s")
    assert (result.error and result.error.code, till.paid) == ("store_full", ["pear"])
    monkeypatch.setattr(app.turns, "store", whole)
    result = await app.answer(agent, "pear", session="s")
    assert (result.error and result.error.code, till.paid) == ("effect_unknown", ["pear"])


async def test_a_turn_that_waited_and_whose_node_was_changed_can_be_given_up(engine: EngineName, tmp_path: Path):
    async def body(text: str, *, human: Human, shop: Shop) -> Done:
        return Done(out=f"{await shop.buy('bag')} {await human.ask(Question(text='Which?'))}")

    async def changed(text: str, *, human: Human, shop: Shop) -> Done:
        return Done(out=f"{await shop.buy('box')} {await human.ask(Question(text='Which?'))}")

    changed.__name__ = changed.__qualname__ = "body"
    settings, till = Settings(engine=engine, data_dir=tmp_path), Till()
    app = Interlock(settings, grants=grants(till))
    assert (await app.run(asking(body), {"text": "x"}, session="s")).status == "waiting"
    agent = replace(asking(changed), abort="no")
    assert await app.waiting(agent, session="s") is not None
    result = await app.abort(agent, session="s")
    assert result is not None
    assert result.error is not None
    assert result.error.code == "replay_diverged"
    assert till.paid == ["bag"]
    assert await app.waiting(agent, session="s") is None


async def test_an_answer_stays_where_its_caller_is_cancelled(engine: EngineName):
    asked = asyncio.Event()

    class Slow(Till):
        async def buy(self, what: str) -> str:
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return await super().buy(what)

    async def body(text: str, *, human: Human, shop: KeyedShop) -> Done:
        return Done(out=await shop.buy(await human.ask(Question(text="Which?")) or ""))

    agent, app = asking(body), Interlock(Settings(engine=engine), grants={**grants(Till()), KeyedShop: Slow()})
    await app.run(agent, {"text": "x"}, session="s")
    task = asyncio.create_task(app.answer(agent, "pear", session="s"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(NothingWaits, match="in other words"):
        await app.answer(agent, "plum", session="s")
    result = await app.answer(agent, "pear", session="s")
    assert (result.status, result.output) == ("success", "one pear")


async def test_a_cancelled_turn_whose_record_cannot_be_ended_is_cancelled_all_the_same(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"

    await cancelled_by_task(Interlock(Settings(engine=engine), grants=grants(Till())), path, before=lambda: fill_up(path))
    assert read_record(path).footer is None


async def test_a_turn_whose_record_failed_and_that_is_cancelled_is_cancelled(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"

    lingers = asyncio.Event()

    async def linger(text: str, *, shop: Shop) -> Done:
        try:
            await shop.buy(text)
        finally:
            lingers.set()
            await asyncio.Event().wait()
        return Done(out="never")

    app = Interlock(Settings(engine=engine), grants=grants(Till(path)))
    task = asyncio.create_task(app.run(one(linger), "pear", record=path))
    await lingers.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert read_record(path).footer is None
