from __future__ import annotations

from typing import Any, get_args

import pytest

from interlock.contract.labels import has_value
from interlock.errors import (
    BudgetExceeded,
    CapabilityResultInvalid,
    CapabilityTimeout,
    MediaBomb,
    MediaMalformed,
    MediaUnsupported,
    ModelTimeout,
    ModelUnavailable,
)
from interlock.testing import CountingIds, FixedClock
from interlock_agents.sam.capabilities import ModelRequest, ModelResponse
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.nodes import (
    IMAGE_PROMPT,
    MAX_TEXT,
    MESSAGES,
    decision_logic_node,
    error_router_node,
    format_response_node,
    model_call_node,
    result_handling_node,
    router_node,
    state_init_node,
    task_preprocessing_node,
)
from interlock_agents.sam.state import (
    Answered,
    CallModel,
    Classified,
    ErrorType,
    Failure,
    Formatted,
    Handled,
    Initialised,
    Preprocess,
    Preprocessed,
    PreprocessingResult,
    Refused,
    Response,
    Routed,
    Success,
    TextWithFile,
)
from interlock_agents.sam.testing import ScriptedBackend

PNG = "data:image/png;base64,iVBORw0KGgo="
WAV = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
CUT_OFF = "data:audio/wav;base64,UklGRiQAAABXQVZF"


class Spoken:
    """A transcriber that hears the same in everything."""

    def __init__(self, text: str | Exception) -> None:
        self._text = text
        self.heard: list[tuple[bytes, str]] = []

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        self.heard.append((audio, media_type))
        if isinstance(self._text, Exception):
            raise self._text
        return self._text


class Small:
    """An image adapter that makes the same of everything."""

    def __init__(self, made: str | Exception = "data:image/png;base64,small") -> None:
        self._made = made
        self.seen: list[tuple[bytes, str]] = []

    async def normalise(self, image: bytes, *, media_type: str) -> str:
        self.seen.append((image, media_type))
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


@pytest.mark.parametrize(
    ("raw_input", "input_type"),
    [
        ("hello", "text"),
        ("data: the new oil", "text"),
        ("data:,hello", "text"),
        ("data:text/plain,hello", "text"),
        ("data:application/pdf;base64,JVBERg==", "text"),
        (PNG, "image"),
        (PNG.upper().replace("IVBORW0KGGO=", "iVBORw0KGgo="), "image"),
        ("data:image/png;base64,", "image"),
        ("data:image/tiff;base64,AAAA", "image"),
        ("data:application/octet-stream;base64,iVBORw0KGgo=", "image"),
        (WAV, "audio"),
        ("data:audio/wav;codecs=1;base64,UklGRg==", "audio"),
        ("data:application/octet-stream;base64,UklGRiQAAABXQVZF", "audio"),
    ],
)
async def test_router_node_classifies_text_audio_and_images(raw_input: str, input_type: Any):
    assert await router_node(raw_input) == Routed(input_type=input_type)


async def test_state_init_node_sets_ids_and_clears_later_fields():
    made = await state_init_node(None, None, clock=FixedClock(), ids=CountingIds())
    assert made == Initialised(conversation_id="id-1", trace_id="id-2", created_at="2026-01-01T00:00:00+00:00")
    emptied = {"preprocessing_result", "model_response", "model_metadata", "final_output", "error_type", "response", "command"}
    assert {name: value for name, value in vars(made).items() if value is None} == dict.fromkeys(emptied)


async def test_state_init_node_keeps_given_ids():
    made = await state_init_node("c", "t", clock=FixedClock(), ids=CountingIds())
    assert (made.conversation_id, made.trace_id) == ("c", "t")


@pytest.mark.parametrize("preprocessing_result", [True, False])
@pytest.mark.parametrize("final_output", [True, False])
@pytest.mark.parametrize(
    ("command", "needs", "then"),
    [
        (None, None, Preprocess()),
        ("preprocess", "preprocessing_result", CallModel()),
        ("call_model", "final_output", Success()),
        ("success", "nothing helps", None),
        ("failure", "nothing helps", None),
    ],
)
async def test_decision_logic_node_depends_on_the_last_command_and_present_fields(
    *, command: Any, needs: str | None, then: object, preprocessing_result: bool, final_output: bool
):
    there = {"preprocessing_result": preprocessing_result, "final_output": final_output}
    expected = then if needs is None or there.get(needs, False) else Failure()
    assert await decision_logic_node(command, preprocessing_result, final_output) == expected


@pytest.mark.parametrize(
    ("raw_input", "result"),
    [
        ("hello", PreprocessingResult(content="hello")),
        ("  a\t\n b ", PreprocessingResult(content="  a\t\n b")),
        ("def f():\r\n    return 1\r\n\r\n", PreprocessingResult(content="def f():\n    return 1")),
        ("a\rb\x85c\x0bd\x0ce", PreprocessingResult(content="a\nb\ncde")),
        ("cafe\u0301", PreprocessingResult(content="caf\u00e9")),
        ("a\x07b\x1b[31m", PreprocessingResult(content="ab[31m")),
        ("\x07", PreprocessingResult(problem="input_empty")),
        ("x" * MAX_TEXT, PreprocessingResult(content="x" * MAX_TEXT)),
        ("x" * (MAX_TEXT + 1), PreprocessingResult(problem="input_too_large")),
        ("x" + " " * MAX_TEXT, PreprocessingResult(content="x")),
    ],
    ids=["text", "space", "code", "line breaks", "composed", "control", "nothing left", "longest", "too long", "long before"],
)
async def test_task_preprocessing_node_normalises_text_or_gives_the_reason(raw_input: str, result: PreprocessingResult):
    made = await task_preprocessing_node("text", raw_input, transcriber=NoTranscriber(), images=NoImages())
    assert made == Preprocessed(preprocessing_result=result)


async def test_task_preprocessing_node_calls_the_transcriber():
    transcriber, images = Spoken(" good\tmorning "), Small()
    made = await task_preprocessing_node("audio", WAV, transcriber=transcriber, images=images)
    assert made.preprocessing_result == PreprocessingResult(content=" good\tmorning")
    ((audio, media_type),) = transcriber.heard
    assert (audio[:12], media_type) == (b"RIFF$\x00\x00\x00WAVE", "audio/wav")
    assert images.seen == []


async def test_task_preprocessing_node_calls_the_image_adapter():
    transcriber, images = Spoken("unused"), Small()
    made = await task_preprocessing_node("image", PNG, transcriber=transcriber, images=images)
    assert made.preprocessing_result == PreprocessingResult(content=IMAGE_PROMPT, image="data:image/png;base64,small")
    assert images.seen == [(b"\x89PNG\r\n\x1a\n", "image/png")]
    assert transcriber.heard == []


@pytest.mark.parametrize(
    ("heard", "problem"), [("", "media_malformed"), (" \n", "media_malformed"), ("x" * (MAX_TEXT + 1), "input_too_large")]
)
async def test_task_preprocessing_node_validates_a_transcript_as_text(heard: str, problem: Any):
    made = await task_preprocessing_node("audio", WAV, transcriber=Spoken(heard), images=NoImages())
    assert made.preprocessing_result == PreprocessingResult(problem=problem)


async def test_task_preprocessing_node_rejects_truncated_audio_without_a_call():
    transcriber = Spoken("words")
    made = await task_preprocessing_node("audio", CUT_OFF, transcriber=transcriber, images=NoImages())
    assert made.preprocessing_result == PreprocessingResult(problem="media_malformed")
    assert transcriber.heard == []


PDF = "A file of type 'application/pdf' cannot be handled here. Send text, an image or audio."


@pytest.mark.parametrize("made", ["", " ", "a picture", "data:text/plain,hello"])
async def test_task_preprocessing_node_rejects_other_results_of_the_image_adapter(made: str):
    outcome = await task_preprocessing_node("image", PNG, transcriber=NoTranscriber(), images=Small(made))
    assert outcome.preprocessing_result == PreprocessingResult(problem="media_malformed")


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (MediaUnsupported(), "unsupported_media"),
        (MediaMalformed(), "media_malformed"),
        (MediaBomb(), "media_bomb"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize(("input_type", "raw_input"), [("audio", WAV), ("image", PNG)])
async def test_task_preprocessing_node_reports_why_an_adapter_refuses(error: Exception, problem: Any, input_type: Any, raw_input: str):
    made = await task_preprocessing_node(input_type, raw_input, transcriber=Spoken(error), images=Small(error))
    found = made.preprocessing_result
    assert found is not None
    assert (found.problem, found.content, found.image) == (problem, "", None)
    assert (f"type '{input_type}/" in found.reason) == (problem == "unsupported_media")


@pytest.mark.parametrize(
    ("input_type", "raw_input", "says"),
    [
        ("text", "data:application/pdf;base64,JVBERg==", "'application/pdf' cannot be handled"),
        ("text", "data:text/plain;base64,//4=", "not UTF-8"),
        ("text", "data:text/plain;base64,%%%", "not valid base64"),
        ("image", PNG.replace("image/png", "image/jpeg"), "declared as 'image/jpeg', but is 'image/png'"),
        ("audio", WAV, "INTERLOCK_TRANSCRIBER"),
    ],
)
async def test_a_rejection_names_the_problem_of_the_input(input_type: Any, raw_input: str, says: str):
    made = await task_preprocessing_node(input_type, raw_input, transcriber=NoTranscriber(), images=NoImages())
    assert made.preprocessing_result is not None
    assert says in made.preprocessing_result.reason


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("data:application/json,%7B%22a%22:1%7D", '{"a":1}'),
        ("data:application/ld+json,%5B%5D", "[]"),
        ("data:application/xml,%3Ca/%3E", "<a/>"),
        ("data:text/plain;base64,77u/aGk=", "hi"),
    ],
    ids=["JSON", "a kind of JSON", "XML", "a byte order mark"],
)
async def test_every_text_type_is_accepted(file: str, text: str):
    made = await task_preprocessing_node("text", file, transcriber=NoTranscriber(), images=NoImages())
    assert made.preprocessing_result == PreprocessingResult(content=text)


@pytest.mark.parametrize(
    ("error", "problem"), [(CapabilityTimeout("It took too long."), "timeout"), (BudgetExceeded("The time is up."), "budget_exceeded")]
)
@pytest.mark.parametrize(("input_type", "raw_input"), [("audio", WAV), ("image", PNG)])
async def test_task_preprocessing_node_names_the_limit_that_was_reached(error: Exception, problem: Any, input_type: Any, raw_input: str):
    made = await task_preprocessing_node(input_type, raw_input, transcriber=Spoken(error), images=Small(error))
    assert made.preprocessing_result == PreprocessingResult(problem=problem, reason=str(error))


@pytest.mark.parametrize(
    ("input_type", "file", "result"),
    [
        ("image", PNG, PreprocessingResult(content="What is\n  this?", image="data:image/png;base64,small")),
        ("audio", WAV, PreprocessingResult(content="What is\n  this?\n\ngood morning")),
        ("text", "data:text/plain,a%0A%20b", PreprocessingResult(content="What is\n  this?\n\na\n b")),
        ("text", "not a file", PreprocessingResult(problem="media_malformed", reason="The file is not a data URI.")),
        ("text", "data:application/pdf;base64,JVBERg==", PreprocessingResult(problem="unsupported_media", reason=PDF)),
    ],
    ids=["image", "audio", "text", "no data URI", "another kind"],
)
async def test_text_beside_a_file_is_the_question(input_type: Any, file: str, result: PreprocessingResult):
    both = TextWithFile(text="What is\n  this? ", file=file)
    assert (await router_node(both)).input_type == input_type
    made = await task_preprocessing_node(input_type, both, transcriber=Spoken("good morning"), images=Small())
    assert made.preprocessing_result == result


@pytest.mark.parametrize("file", [PNG, WAV, "data:text/plain,a"], ids=["image", "audio", "text"])
async def test_a_question_over_the_limit_is_rejected_with_a_file_too(file: str):
    both = TextWithFile(text="x" * (MAX_TEXT + 1), file=file)
    kind = (await router_node(both)).input_type
    made = await task_preprocessing_node(kind, both, transcriber=Spoken("words"), images=Small())
    assert made.preprocessing_result == PreprocessingResult(problem="input_too_large")


def test_a_preprocessing_result_with_a_problem_is_not_present():
    assert not has_value(PreprocessingResult(problem="media_malformed"))
    assert has_value(PreprocessingResult(content="hello"))


async def test_model_call_node_sends_text():
    model = ScriptedBackend("hi")
    made = await model_call_node(PreprocessingResult(content="hello"), "text", "t", model=model)
    assert isinstance(made, Answered)
    assert made.model_response.output == "hi"
    assert model.requests == [ModelRequest(prompt="hello", trace_id="t")]


async def test_model_call_node_sends_a_transcript_as_text():
    model = ScriptedBackend("hi")
    await model_call_node(PreprocessingResult(content="good morning"), "audio", "t", model=model)
    assert model.requests == [ModelRequest(prompt="good morning", trace_id="t")]


async def test_model_call_node_sends_an_image_beside_the_prompt():
    model = ScriptedBackend("a dot")
    await model_call_node(PreprocessingResult(content=IMAGE_PROMPT, image=PNG), "image", "t", model=model)
    assert model.requests == [ModelRequest(prompt=IMAGE_PROMPT, image=PNG, trace_id="t")]


@pytest.mark.parametrize(
    ("error", "error_type", "reason"),
    [
        (BudgetExceeded("Too many tokens."), "budget_exceeded", "Too many tokens."),
        (ModelTimeout("Too late."), "timeout", "Too late."),
        (ModelUnavailable("Nobody there."), "backend_unavailable", "Nobody there."),
        (CapabilityResultInvalid("hunter2"), "backend_unavailable", MESSAGES["backend_unavailable"]),
    ],
)
async def test_errors_of_the_gate_become_responses(error: Exception, error_type: Any, reason: str):
    made = await model_call_node(PreprocessingResult(content="hello"), "text", "t", model=Raising(error))
    assert isinstance(made, Refused)
    assert await error_router_node(made.model_response, None) == Classified(error_type=error_type, final_output=reason)


class Raising:
    """A backend behind a gate that refuses the call."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def generate(self, request: ModelRequest) -> ModelResponse:
        raise self._error


@pytest.mark.parametrize("status", ["recoverable_error", "fatal_error"])
async def test_model_call_node_is_refused_by_any_status_but_success(status: Any):
    response = ModelResponse(status=status, output="ignored", error_type="timeout")
    made = await model_call_node(PreprocessingResult(content="hello"), "text", "t", model=ScriptedBackend(response))
    assert made == Refused(model_response=response)


@pytest.mark.parametrize(
    ("output", "final"),
    [("hi", "hi"), (" hi ", " hi "), ("", None), (" \n\u00a0", None), (None, None), ("None", "None"), ("\u200b", "\u200b")],
)
async def test_result_handling_node_ignores_a_blank_answer(output: str | None, final: str | None):
    response = ModelResponse(status="success", output=output, metadata={"backend": "x"})
    assert await result_handling_node(response) == Handled(final_output=final, model_metadata={"backend": "x"})


async def test_result_handling_node_without_a_response_has_no_output():
    assert await result_handling_node(None) == Handled(final_output=None, model_metadata=None)


BAD_IMAGE = PreprocessingResult(problem="media_malformed")


@pytest.mark.parametrize(
    ("response", "preprocessed", "error_type"),
    [
        (ModelResponse(status="recoverable_error", error_type="timeout"), PreprocessingResult(content="x"), "timeout"),
        (ModelResponse(status="fatal_error", error_type="invalid_output"), None, "invalid_output"),
        (ModelResponse(status="fatal_error"), None, "backend_unavailable"),
        (ModelResponse(status="success", output=" "), PreprocessingResult(content="x"), "invalid_output"),
        (ModelResponse(status="fatal_error", error_type="timeout"), BAD_IMAGE, "timeout"),
        (None, BAD_IMAGE, "media_malformed"),
        (None, PreprocessingResult(problem="unsupported_media"), "unsupported_media"),
        (None, PreprocessingResult(problem="media_bomb"), "media_bomb"),
        (None, PreprocessingResult(problem="input_too_large"), "input_too_large"),
        (None, PreprocessingResult(problem="input_empty"), "input_empty"),
        (None, None, "invalid_output"),
    ],
)
async def test_error_router_node_classifies_every_failure(
    response: ModelResponse | None, preprocessed: PreprocessingResult | None, error_type: Any
):
    expected = Classified(error_type=error_type, final_output=MESSAGES[error_type])
    assert await error_router_node(response, preprocessed) == expected


def test_every_error_type_has_a_message():
    assert set(MESSAGES) == set(get_args(ErrorType))
    assert all(message.endswith(".") for message in MESSAGES.values())


async def test_format_response_node_builds_a_reply():
    made = await format_response_node("c", "t", "hi", None, {"backend": "x"})
    reply = Response(conversation_id="c", trace_id="t", status="success", output="hi", error_type=None, metadata={"backend": "x"})
    assert made == Formatted(response=reply)


async def test_format_response_node_builds_an_error():
    made = await format_response_node("c", "t", "It was late.", "timeout", None)
    reply = Response(conversation_id="c", trace_id="t", status="error", output="It was late.", error_type="timeout", metadata=None)
    assert made == Formatted(response=reply)


async def test_format_response_node_always_sets_the_output():
    assert (await format_response_node("c", "t", None, "timeout", None)).response.output == ""
