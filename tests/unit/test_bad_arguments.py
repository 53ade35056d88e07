"""What is passed to the library that cannot be used: one of our errors, at once, whatever it is."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypedDict, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Settings, TurnResult, node
from interlock.errors import AgentUnknown, InputError, InputSchema, InputTooLarge, RecordInvalid, RoleUnknown, SettingsInvalid
from interlock.input import MAX_DEPTH, MAX_PARTS, check_size
from interlock.runtime.recording import read_record

ODD: list[Any] = [5, 1.5, b"x", [], {}, object(), {"a": 1}, ("x",), int, lambda: None]


def app(folder: Path) -> Interlock:
    return Interlock(Settings(engine="direct", data_dir=folder))


def nested(kind: str) -> Any:
    """Make a value that would take for ever to look at, or more of the stack than there is."""
    value: Any = []
    if kind == "a list in itself":
        value.append(value)
    elif kind == "a list twice in itself":
        value += [value, value]
    elif kind == "a mapping in itself":
        value = {}
        value["a"] = value
    else:
        for _ in range(100_000 if kind == "deep" else 60):
            value = [value] if kind == "deep" else [value, value]
    return value


ENDLESS = ["a list in itself", "a list twice in itself", "a mapping in itself", "deep", "doubled"]


@pytest.mark.parametrize("wrong", ODD, ids=lambda wrong: type(wrong).__name__)
async def test_what_is_no_agent_session_role_record_or_listener_is_refused(tmp_path: Path, wrong: Any):
    async with app(tmp_path) as running:
        refused: list[tuple[type[InterlockError], Callable[[], Any]]] = [
            (AgentUnknown, lambda: running.run(wrong, "hi")),
            (AgentUnknown, lambda: running.answer(wrong, "hi", session="s")),
            (InputSchema, lambda: running.run("sam", "hi", session=wrong)),
            (InputSchema, lambda: running.answer("puntini", "hi", session=wrong)),
            (InputError, lambda: running.answer("puntini", wrong, session="s")),  # nothing waits in that session
            (RoleUnknown, lambda: running.run("sam", "hi", role=wrong)),
            (RecordInvalid, lambda: running.run("sam", "hi", record=wrong)),
            (RecordInvalid, lambda: running.replay(wrong)),
            (RecordInvalid, lambda: running.resume(wrong)),
        ]
        if not callable(wrong):
            refused.append((InputSchema, lambda: running.run("sam", "hi", on_event=wrong)))
        if type(wrong) is not dict:
            refused.append((InputSchema, lambda: running.run("sam", cast("Any", wrong))))
        for expected, call in refused:
            with pytest.raises(expected):
                await call()
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - one look


def test_settings_and_grants_of_another_kind_are_refused():
    for wrong in (5, "x", {"engine": "direct"}):
        with pytest.raises(SettingsInvalid, match="Settings"):
            Interlock(wrong)  # pyright: ignore[reportArgumentType]
    for grants in (5, [1], {"Model": 1}, {5: 1}, {object(): 1}, {None: 1}):
        with pytest.raises(SettingsInvalid, match="capabilit"):
            Interlock(Settings(), grants=grants)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_contains_itself_is_refused_at_once(tmp_path: Path, kind: str):
    value = nested(kind)
    async with app(tmp_path) as running:
        for agent, given_fields in (
            ("sam", {"raw_input": value}),
            ("analyst", {"messages": value}),
            ("desk", {"user_message": value}),
            ("puntini", {"goal": value}),
        ):
            before = time.process_time()
            with pytest.raises(InputTooLarge):
                await running.run(agent, given_fields)
            assert time.process_time() - before < 10


def test_depth_and_parts_are_allowed_up_to_their_limit():
    value: Any = ["x"]
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    check_size({"a": value, "b": [0] * (MAX_PARTS - MAX_DEPTH)}, max_bytes=1 << 20)
    with pytest.raises(InputTooLarge, match="deep"):
        check_size({"a": [value]}, max_bytes=1 << 20)
    with pytest.raises(InputTooLarge, match="parts"):
        check_size({"b": [0] * (MAX_PARTS + 1)}, max_bytes=1 << 20)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(agent=ANYTHING | st.sampled_from(["sam", "analyst", "puntini"]), said=ANYTHING, session=ANYTHING, role=ANYTHING)
def test_nothing_but_our_errors_comes_out_of_a_call(tmp_path: Path, agent: Any, said: Any, session: Any, role: Any):
    async def call() -> None:
        async with app(tmp_path) as running:
            with suppress(InterlockError):
                await running.run(agent, said, session=session, role=role)

    asyncio.run(call())


# Records


class Talk(TypedDict, total=False):
    text: str
    said: JsonValue


class Said(Outcome):
    said: JsonValue


class Echo(Capability, Protocol):
    async def say(self, what: JsonValue) -> JsonValue: ...


class Repeats:
    async def say(self, what: JsonValue) -> JsonValue:
        return what


async def speak(text: str, *, echo: Echo) -> Said:
    return Said(said=await echo.say({"what": [text]}))


talk = Graph("talk", state=Talk, entry=speak, takes=("text",), gives="said", nodes=[node(speak, goes={Said: END})])


async def recorded(folder: Path) -> list[dict[str, Any]]:
    async with Interlock(Settings(engine="direct", data_dir=folder), grants={Echo: Repeats()}) as running:
        result = await running.run(talk, "hi", record=folder / "record")
    assert result.output == {"what": ["hi"]}
    return [json.loads(line) for line in (folder / "record").read_text().splitlines()]


async def test_a_capability_may_take_and_return_any_json(tmp_path: Path):
    lines = await recorded(tmp_path)
    assert lines[1]["entry"]["result"] == {"what": ["hi"]}


BROKEN: list[tuple[str, Any]] = [
    ("an error without a code", {"message": "x"}),
    ("an error without a message", {"code": "store_failed"}),
    ("a code that is no text", {"code": 5, "message": "x"}),
    ("an error that is no mapping", "x"),
    ("an unknown code", {"code": "nonsense", "message": "x"}),
]


@pytest.mark.parametrize("error", [error for _, error in BROKEN], ids=[name for name, _ in BROKEN])
async def test_a_record_whose_error_is_malformed_is_invalid(tmp_path: Path, error: Any):
    heading, entry, ending = await recorded(tmp_path)
    entry["entry"] |= {"error": error, "result": None}
    last = copy.deepcopy(ending)
    last["footer"]["result"]["error"] = error
    for lines in ([heading, entry, ending], [heading, entry], [heading, last]):
        path = tmp_path / "broken"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        async with Interlock(Settings(engine="direct", data_dir=tmp_path), grants={Echo: Repeats()}) as running:
            work = running.replay(path, graph=talk) if len(lines) == 3 or "footer" in lines[-1] else running.resume(path, graph=talk)
            try:
                done = await work
            except RecordInvalid:
                continue
            result: TurnResult = getattr(done, "result", done)  # pyright: ignore[reportAssignmentType]
            assert result.error is not None
            assert result.error.code in {"record_invalid", "replay_diverged"}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_record_that_was_changed_is_replayed_or_refused(tmp_path: Path, data: st.DataObject):
    """Whatever is changed in a record, nothing but our errors comes of it."""
    if not (tmp_path / "record").exists():
        asyncio.run(recorded(tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    places = [place for number, line in enumerate(lines) for place in paths(line, (number,))]
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3)):
        change(lines, place, data.draw(st.sampled_from(["drop", *ODD_JSON])))
    path = tmp_path / "changed"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    async def again() -> None:
        async with Interlock(Settings(engine="direct", data_dir=tmp_path), grants={Echo: Repeats()}) as running:
            for work in (running.replay, running.resume):
                with suppress(InterlockError):
                    await work(path, graph=talk)

    asyncio.run(again())


ODD_JSON: list[Any] = [None, 5, "x", "", [], {}, [[]], {"code": "x"}, True, -1]


def paths(value: Any, inside: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    parts = cast("Any", value).items() if type(value) is dict else enumerate(cast("Any", value)) if type(value) is list else ()
    return [path for key, part in parts for path in [(*inside, key), *paths(part, (*inside, key))]]


def change(lines: Any, place: tuple[Any, ...], to: Any) -> None:
    for key in place[:-1]:
        try:
            lines = lines[key]
        except (LookupError, TypeError):  # gone with an earlier change
            return
    try:
        if to == "drop":
            del lines[place[-1]]
        else:
            lines[place[-1]] = to
    except (LookupError, TypeError):
        pass


def test_a_record_of_bad_text_is_invalid(tmp_path: Path):
    path = tmp_path / "record"
    for text in ("", "{}\n", "[]\n", "5\n", "[" * 100_000 + "\n", '{"header": ' * 2000 + "\n", "\ud800\n"):
        path.write_text(text, errors="surrogatepass")
        with pytest.raises(RecordInvalid):
            read_record(path)
