from __future__ import annotations

import asyncio
import functools
import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids
from interlock.engine import ENGINES, EngineName
from interlock.errors import InputError, SettingsInvalid
from interlock.runtime.events import Event
from interlock.testing import CountingIds, FixedClock, Scripted
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse, Transcriber
from interlock_agents.sam.graph import sam
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.nodes import MESSAGES, task_preprocessing_node
from interlock_agents.sam.testing import ScriptedBackend
from tests.support.passing import ENOUGH, let_time_pass, use_up

ASKED = ("router_node", "state_init_node", "decision_logic_node", "task_preprocessing_node", "decision_logic_node", "model_call_node")
SUCCESS = (*ASKED, "result_handling_node", "decision_logic_node", "format_response_node")
BLANK = (*ASKED, "result_handling_node", "decision_logic_node", "error_router_node", "format_response_node")

SURROGATES = st.characters(categories=["Cs"])
CONTROL = st.characters(categories=["Cc"])
BLANKS = st.sampled_from([" ", "\t", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u00a0", "\u2003", "\u2028", "\u3000"])
MARKS = st.sampled_from(["e", "\u0301", "\u0327", "\u1100", "\u1161", "\u212b", "\ufb01"])
TEXT = st.one_of(st.text(), st.text(alphabet=BLANKS), st.text(alphabet=st.one_of(CONTROL, BLANKS, MARKS, st.characters(codec="utf-8"))))
URIS = st.builds(
    "data:{}{},{}".format,
    st.sampled_from(["text/plain", "image/png", "audio/wav", "image/tiff", "application/pdf", "TEXT/PLAIN;charset=utf-8", ""]),
    st.sampled_from(["", ";base64", ";x=y;base64"]),
    st.one_of(st.text(), st.sampled_from(["iVBORw0KGgo=", "UklGRiQAAABXQVZF", "%ff", "aGk="])),
)
INPUTS = st.one_of(TEXT, URIS, st.text(alphabet=st.one_of(SURROGATES, st.characters(codec="utf-8"))), st.just("x" * 40_000))


AUDIO = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


class Hears:
    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        return "heard"


class Puppet:
    """A model that says what it was last told to say."""

    says = ""

    async def generate(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(status="success", output=self.says)


@functools.cache
def running(engine: EngineName) -> tuple[Interlock, Puppet]:
    puppet = Puppet()
    return Interlock(Settings(engine=engine), grants={ModelBackend: puppet}), puppet


async def check_path(engine: EngineName, text: str) -> None:
    app, puppet = running(engine)
    puppet.says = text
    result = await app.run("sam", "hello")
    if text.strip():
        assert (result.path, result.status, result.output) == (SUCCESS, "success", text)
    else:
        assert (result.path, result.status, result.output) == (BLANK, "error", MESSAGES["invalid_output"])


@settings(max_examples=300)
@given(text=TEXT)
@example('{"command": "failure"}')
@example("error_router_node")
async def test_no_reply_of_the_model_changes_the_path(text: str):
    await check_path("direct", text)


@settings(max_examples=30)
@given(text=TEXT)
@example('{"command": "failure"}')
@example('{"__overwrite__": null}')
async def test_no_reply_of_the_model_changes_the_path_on_langgraph(text: str):
    await check_path("langgraph", text)


async def take(
    engine: EngineName, given: str | Mapping[str, Any], *replies: str | ModelResponse | Exception
) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    grants = {ModelBackend: ScriptedBackend(*replies), Clock: FixedClock(), Ids: CountingIds()}
    return await Interlock(Settings(engine=engine), grants=grants).run("sam", given, on_event=events.append), events


VALID = st.one_of(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), URIS).filter(
    lambda text: not text.isspace() and "\0" not in text
)
REPLIES: st.SearchStrategy[str | ModelResponse | Exception] = st.one_of(
    st.text(),
    st.builds(RuntimeError, st.text()),
    st.just(TimeoutError()),
    st.builds(
        ModelResponse,
        status=st.sampled_from(["success", "recoverable_error", "fatal_error"]),
        output=st.none() | st.text(),
        error_type=st.sampled_from([None, "timeout", "invalid_output"]),
        metadata=st.none() | st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=3),
    ),
)


@settings(max_examples=40)
@given(text=VALID, reply=REPLIES)
async def test_a_turn_is_byte_identical_on_every_run_and_engine(text: str, reply: str | ModelResponse | Exception):
    told: set[str] = set()
    for engine in (*ENGINES, *ENGINES):
        result, events = await take(engine, text, reply)
        told.add(json.dumps([result.to_json(), events]))
    assert len(told) == 1


def told(result: TurnResult) -> None:
    """Hold a result to what every result must be."""
    assert (result.status == "error") == (result.error is not None)
    if result.error is not None:
        assert result.error.code in MESSAGES
        assert "error_router_node" in result.path
    edges = {(source, target) for source, _, target in sam.edges}
    assert set(zip(result.path, (*result.path[1:], None), strict=True)) <= edges
    json.dumps(result.to_json()).encode()


async def check_input(engine: EngineName, given: str | Mapping[str, Any]) -> None:
    try:
        result = await running(engine)[0].run("sam", given)
    except InputError as error:
        assert error.code in {"input_empty", "input_encoding", "input_schema", "input_too_large"}  # noqa: PT017 - one of two good endings
    else:
        told(result)


@settings(max_examples=300)
@given(text=INPUTS)
async def test_any_text_has_a_result_or_a_typed_error(text: str):
    await check_input("direct", text)


@settings(max_examples=30)
@given(text=INPUTS)
async def test_any_text_has_a_result_or_a_typed_error_on_langgraph(text: str):
    await check_input("langgraph", text)


FIELDS = st.sampled_from(["raw_input", "conversation_id", "trace_id", "command", "unknown", ""])
VALUES = st.one_of(INPUTS, st.none(), st.integers(), st.binary(), st.lists(st.text(), max_size=2))


@settings(max_examples=200)
@given(fields=st.dictionaries(FIELDS, VALUES, max_size=4))
async def test_any_fields_have_a_result_or_a_typed_error(fields: dict[str, Any]):
    await check_input("direct", {"raw_input": "hello", **fields})


@given(fields=st.dictionaries(st.sampled_from(["conversation_id", "trace_id"]), st.text(alphabet=SURROGATES, min_size=1), min_size=1))
async def test_a_lone_surrogate_is_rejected_in_every_field(fields: dict[str, str]):
    for given_fields in ({"raw_input": "hello", **fields}, {"raw_input": next(iter(fields.values()))}):
        try:
            await running("direct")[0].run("sam", given_fields)
        except InputError as error:
            assert error.code == "input_encoding"  # noqa: PT017 - any other ending fails below
        else:
            raise AssertionError(given_fields)


def normalised(text: str) -> str | None:
    """Return what the model would be asked."""
    made = asyncio.run(task_preprocessing_node("text", text, transcriber=NoTranscriber(), images=NoImages()))
    return made.preprocessing_result.content or None


PLAIN = TEXT.filter(lambda text: not text.startswith("data:"))


@settings(max_examples=300)
@given(text=PLAIN)
def test_no_control_character_reaches_the_model(text: str):
    asked = normalised(text) or ""
    assert not [character for character in asked if unicodedata.category(character) == "Cc" and character not in "\n\t"]


@settings(max_examples=300)
@given(text=PLAIN)
@example("e\x07\u0301")
def test_text_is_normalised_to_nfc(text: str):
    assert unicodedata.is_normalized("NFC", normalised(text) or "")


@settings(max_examples=300)
@given(text=PLAIN)
@example("a \x07 b")
@example("def f():\r\n    return 1\r\n")
def test_lines_and_indentation_stay_and_the_end_is_trimmed(text: str):
    asked = normalised(text) or ""
    assert asked == asked.rstrip()
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x85", "\n").rstrip("\n").split("\n")
    assert asked.count("\n") < len(lines)
    for line, before in zip(asked.split("\n"), lines, strict=False):
        kept = "".join(c for c in before if c == "\t" or unicodedata.category(c) != "Cc")
        assert line.rstrip() == unicodedata.normalize("NFC", kept).rstrip()


@settings(max_examples=300)
@given(text=PLAIN)
@example("e\x07\u0301")
@example("a \x07 b")
def test_normalised_text_is_unchanged(text: str):
    asked = normalised(text)
    assert asked is None or normalised(asked) == asked


@given(words=st.lists(st.text(alphabet=st.characters(categories=["L", "N"], max_codepoint=0x17F), min_size=1), min_size=1))
def test_words_reach_the_model_unchanged(words: list[str]):
    assert normalised(" \n".join(words)) == unicodedata.normalize("NFC", " \n".join(words))


@given(engine=st.sampled_from(ENGINES), at=st.integers(0, 40), said=st.sampled_from(["hello", AUDIO]), is_recorded=st.booleans())
async def test_the_time_limit_never_breaks_the_rows(engine: EngineName, at: int, said: str, *, is_recorded: bool):
    """Time runs out with an event of the turn: while a node begins or ends, before or after a call, between two steps."""
    let_time_pass()
    events = 0

    def listen(_: Event) -> None:
        nonlocal events
        events += 1
        if events == at + 1:
            use_up()

    grants = {ModelBackend: ScriptedBackend("fine"), Transcriber: Hears(), Clock: FixedClock(), Ids: CountingIds()}
    app = Interlock(Settings(engine=engine, max_turn_seconds=ENOUGH), grants=grants)
    with TemporaryDirectory() as folder:
        record = Path(folder) / "turn.jsonl" if is_recorded else None
        result = await app.run("sam", said, on_event=listen, record=record)
        if record is not None:
            assert (await app.replay(record)).differences == ()
    assert result.path[-1] == "format_response_node"
    if result.status == "success":
        assert "error_router_node" not in result.path
        return
    assert result.error is not None
    assert (result.error.code, result.path[-2]) == ("budget_exceeded", "error_router_node")
    assert "max_turn_seconds" in result.output


@given(engine=st.sampled_from(ENGINES), most=st.integers(1, 12), reply=st.sampled_from(["fine", " ", RuntimeError("broken")]))
async def test_the_step_limit_never_breaks_the_rows(engine: EngineName, most: int, reply: Scripted):
    model = ScriptedBackend(reply)
    app = Interlock(Settings(engine=engine, max_steps=most), grants={ModelBackend: model, Clock: FixedClock(), Ids: CountingIds()})
    if most < 10:
        with pytest.raises(SettingsInvalid, match="max_steps"):
            await app.run("sam", "hello")
        assert model.requests == []
        return
    result = await app.run("sam", "hello")
    assert result.path[-1] == "format_response_node"
    assert result.status == "success" or result.path[-2] == "error_router_node"
