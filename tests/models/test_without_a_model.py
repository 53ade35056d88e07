"""Those who answer without a model: rules, the stub, a script. They say who they are, and stream like a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Message, Model, ModelReply, Tool, ToolCall, Usage, join_chunks
from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable, SettingsInvalid
from interlock.models.offline import OfflineModel
from interlock.models.rules import Rules, split_words
from interlock.models.stub import StubModel
from interlock_agents.sam.capabilities import ModelRequest, ModelResponse
from interlock_agents.sam.testing import ScriptedBackend

HELLO = [Message(role="user", text="hello there")]
CALL = ToolCall(id="a", name="look", arguments={"at": "x"})
T = TypeVar("T", bound=BaseModel)


class Colour(BaseModel):
    colour: str


class Plain(BaseModel):
    size: int = 3


async def streamed(model: Model) -> list[Chunk]:
    return [piece async for piece in model.stream(HELLO)]


# Rules


class Echo(Rules):
    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        if tools:
            return ModelReply(calls=(CALL,), model="GPT-9", usage=Usage(input_tokens=1))
        return f"You said: {messages[-1].text}"

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        return schema.model_validate({"colour": messages[-1].text})


class Confused(Echo):
    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        return cast("T", Plain())


async def test_replies_of_rules_are_marked_as_offline_rules() -> None:
    model: Model = OfflineModel(Echo())
    assert await model.reply(HELLO) == ModelReply(text="You said: hello there", model="offline rules")
    called = await model.reply(HELLO, tools=[Tool(name="look", description="", parameters={})])
    assert called == ModelReply(calls=(CALL,), model="offline rules", usage=Usage(input_tokens=1))
    decision = await model.decide(HELLO, schema=Colour)
    assert (decision.value, decision.model) == (Colour(colour="hello there"), "offline rules")
    pieces = await streamed(model)
    assert [piece.text for piece in pieces] == ["You", " said:", " hello", " there"]
    assert {piece.model for piece in pieces} == {"offline rules"}


async def test_a_decision_of_another_class_is_rejected() -> None:
    with pytest.raises(ModelOutputInvalid, match="'Plain', not a 'Colour'"):
        await OfflineModel(Confused()).decide(HELLO, schema=Colour)


@given(st.text(), st.sampled_from([(), (CALL,)]))
def test_chunks_join_to_the_whole_reply(text: str, calls: tuple[ToolCall, ...]) -> None:
    whole = ModelReply(text=text, calls=calls, model="m", usage=Usage(output_tokens=1))
    pieces = list(split_words(whole))
    assert join_chunks(pieces) == whole
    assert all(not piece.calls and piece.usage is None for piece in pieces[:-1])


# The stub


async def test_the_stub_returns_its_fixed_reply() -> None:
    model: Model = StubModel()
    assert await model.reply(HELLO) == ModelReply(text="This is a stubbed response.", model="stub")
    assert [piece.text for piece in await streamed(model)] == ["This", " is", " a", " stubbed", " response."]
    assert (await model.decide(HELLO, schema=Plain)).value == Plain(size=3)
    with pytest.raises(ModelOutputInvalid):
        await model.decide(HELLO, schema=Colour)


# A script


async def test_a_script_is_followed_by_every_method() -> None:
    model = ScriptedBackend(
        "one", ModelReply(calls=(CALL,)), Colour(colour="red"), {"colour": "blue"}, '{"colour": "green"}', ["a", "b"], "last"
    )
    granted: Model = model
    assert await granted.reply(HELLO) == ModelReply(text="one", model="scripted")
    assert await granted.reply(HELLO) == ModelReply(calls=(CALL,))
    assert (await granted.decide(HELLO, schema=Colour)).value == Colour(colour="red")
    assert (await granted.decide(HELLO, schema=Colour)).value == Colour(colour="blue")
    assert (await granted.decide(HELLO, schema=Colour)).value == Colour(colour="green")
    assert [piece.text for piece in await streamed(granted)] == ["a", "b"]
    assert (await granted.reply(HELLO)).text == "last"
    assert (await model.generate(ModelRequest(prompt="hi"))).output == "last"
    assert model.messages == [tuple(HELLO)] * 7
    assert [request.prompt for request in model.requests] == ["hi"]


async def test_an_empty_script_replies_ok() -> None:
    assert (await ScriptedBackend().reply(HELLO)).text == "ok"


@pytest.mark.parametrize("scripted", [{"color": "red"}, "red", Plain(), ["re", "d"]])
async def test_a_scripted_decision_is_validated(scripted: Any) -> None:
    with pytest.raises(ModelOutputInvalid):
        await ScriptedBackend(scripted).decide(HELLO, schema=Colour)


async def test_a_scripted_exception_is_raised() -> None:
    for ask in (ScriptedBackend(ModelTimeout()).reply(HELLO), ScriptedBackend(ModelTimeout()).decide(HELLO, schema=Colour)):
        with pytest.raises(ModelTimeout):
            await ask
    with pytest.raises(ModelTimeout):
        await streamed(ScriptedBackend(ModelTimeout()))


async def test_a_scripted_stream_can_fail() -> None:
    stream = ScriptedBackend(["a", Chunk(text="b"), ModelUnavailable()]).stream(HELLO)
    assert [(await anext(stream)).text, (await anext(stream)).text] == ["a", "b"]
    with pytest.raises(ModelUnavailable):
        await anext(stream)


async def test_every_scripted_entry_can_be_a_text_reply() -> None:
    model = ScriptedBackend({"colour": "red"}, Colour(colour="red"), ["re", "d"])
    assert [(await model.reply(HELLO)).text for _ in range(3)] == ['{"colour":"red"}', '{"colour":"red"}', "red"]


async def test_a_response_is_only_for_a_backend() -> None:
    response = ModelResponse(status="fatal_error", error_type="invalid_output")
    assert await ScriptedBackend(response).generate(ModelRequest(prompt="hi")) is response
    with pytest.raises(TypeError, match="not a reply of a model"):
        await ScriptedBackend(response).reply(HELLO)


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    call = {"id": "a", "name": "look", "arguments": {"at": "x"}}
    path.write_text(json.dumps(["one", {"text": "two", "calls": [call]}, {"decide": {"colour": "red"}}, {"error": "model_timeout"}]))
    model = ScriptedBackend.read(path)
    assert (await model.reply(HELLO)).text == "one"
    assert await model.reply(HELLO) == ModelReply(text="two", calls=(CALL,), model="scripted")
    assert (await model.decide(HELLO, schema=Colour)).value == Colour(colour="red")
    with pytest.raises(ModelTimeout):
        await model.reply(HELLO)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("model_unavailable", ModelUnavailable), ("model_refused", ModelRefused), ("model_output_invalid", ModelOutputInvalid)],
)
async def test_a_script_names_errors_by_their_codes(tmp_path: Path, code: str, expected: type[ModelError]) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"error": code}]))
    with pytest.raises(expected):
        await ScriptedBackend.read(path).reply(HELLO)


@pytest.mark.parametrize(
    "content",
    [None, b"", b"{", b"{}", b"[5]", b"[null]", b'[{"txt": "x"}]', b'[{"error": "hunter2"}]', b'[{"decide": 5}]', b'["\xff"]',
     b'[{"text": 5}]',
     b'[{"calls": [{"id": "a", "name": "look", "arguments": 5}]}]', b'["x"] trailing', b"[" * 100_000],
)  # fmt: skip
def test_an_invalid_script_is_an_invalid_setting(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "script.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsInvalid, match=r"script\.json"):
        ScriptedBackend.read(path)
