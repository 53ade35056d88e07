"""sam's eight nodes, in the order of the rows."""

from __future__ import annotations

import re
import unicodedata

from interlock.capabilities import Clock, Ids
from interlock.contract import Present, guard
from interlock.errors import (
    BudgetExceeded,
    CapabilityError,
    CapabilityTimeout,
    MediaBomb,
    MediaMalformed,
    MediaUnsupported,
    ModelError,
    ModelTimeout,
)
from interlock.media import DataUri, check_audio, sniff
from interlock_agents.sam.capabilities import Images, Metadata, ModelBackend, ModelErrorType, ModelRequest, ModelResponse, Transcriber
from interlock_agents.sam.state import (
    Answered,
    CallModel,
    Classified,
    Command,
    ErrorType,
    Failure,
    Formatted,
    Handled,
    Initialised,
    InputProblem,
    InputType,
    Preprocess,
    Preprocessed,
    PreprocessingResult,
    Refused,
    Response,
    Routed,
    Success,
    TextWithFile,
)

__all__ = [
    "IMAGE_PROMPT",
    "MAX_TEXT",
    "MESSAGES",
    "decision_logic_node",
    "error_router_node",
    "format_response_node",
    "kind_of",
    "model_call_node",
    "result_handling_node",
    "router_node",
    "state_init_node",
    "task_preprocessing_node",
]

MAX_TEXT = 32_000
"""The maximum length of a prompt in characters."""

IMAGE_PROMPT = "Describe this image."
"""The prompt for an image without a question."""

_LINE_BREAK = re.compile("\\r\\n?|\\x85")

MESSAGES: dict[ErrorType, str] = {
    "timeout": "The model did not answer in time.",
    "backend_unavailable": "The model could not be reached.",
    "invalid_output": "The model gave no usable answer.",
    "unsupported_media": "This kind of input cannot be handled here.",
    "media_malformed": "The media is damaged or is not what it is declared to be.",
    "media_bomb": "The media is small, but what it would unpack to is not.",
    "input_too_large": f"The text is longer than {MAX_TEXT:,} characters.",
    "input_empty": "There is nothing in the input to answer.",
    "budget_exceeded": "The turn has used up what it may use.",
}
_UNSUPPORTED: dict[InputType, str] = {
    "text": "A file of type '{}' cannot be handled here. Send text, an image or audio.",
    "image": "An image of type '{}' cannot be handled here.",
    "audio": "Audio of type '{}' cannot be transcribed here. Check INTERLOCK_TRANSCRIBER, or send text.",
}
_TEXT = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml)|application/(?:x-yaml|javascript|x-sh|sql|x-sql|x-python)")
_MAX_SHOWN = 60
_WITH_PUBLIC_MESSAGE = (ModelError, BudgetExceeded, CapabilityTimeout)
"""Errors whose message is shown to the user. Messages of other errors may come from a third-party adapter."""


@guard
def kind_of(raw_input: str | TextWithFile) -> InputType:
    """Return the kind of the input: that of its file, if there is one."""
    uri = DataUri.read(raw_input if isinstance(raw_input, str) else raw_input["file"])
    return "text" if uri is None else uri.kind


async def router_node(raw_input: str | TextWithFile) -> Routed:
    """Determine whether the input is text, audio or an image, by the file if there is one."""
    return Routed(input_type=kind_of(raw_input))


async def state_init_node(conversation_id: str | None, trace_id: str | None, *, clock: Clock, ids: Ids) -> Initialised:
    """Set the ids and the time of the turn, and clear the fields of an earlier turn."""
    return Initialised(
        conversation_id=conversation_id or await ids.new(),
        trace_id=trace_id or await ids.new(),
        created_at=(await clock.now()).isoformat(),
    )


async def decision_logic_node(
    command: Command | None, preprocessing_result: Present, final_output: Present
) -> Preprocess | CallModel | Success | Failure:
    """Choose the next step from the last command and from which fields have values, never from their content."""
    if command is None:
        return Preprocess()
    if command == "preprocess" and preprocessing_result:
        return CallModel()
    if command == "call_model" and final_output:
        return Success()
    return Failure()


async def task_preprocessing_node(
    input_type: InputType, raw_input: str | TextWithFile, *, transcriber: Transcriber, images: Images
) -> Preprocessed:
    """Convert the input to a prompt, or give the reason why that is not possible."""
    question, subject = ("", raw_input) if isinstance(raw_input, str) else (raw_input["text"], raw_input["file"])
    uri = DataUri.read(subject)
    if uri is None:
        return _ready(subject) if isinstance(raw_input, str) else _rejected("media_malformed", "The file is not a data URI.")
    try:
        return await _from_uri(uri, input_type, question, transcriber=transcriber, images=images)
    except MediaBomb:
        return _rejected("media_bomb")
    except MediaMalformed:
        return _rejected("media_malformed", _mismatch(uri))
    except UnicodeDecodeError:
        return _rejected("media_malformed", "The text is not UTF-8.")
    except BudgetExceeded as error:
        return _rejected("budget_exceeded", error.message)
    except CapabilityTimeout as error:
        return _rejected("timeout", error.message)
    except CapabilityError:
        return _rejected("unsupported_media", _UNSUPPORTED[input_type].format(_shown(uri.media_type)))


async def model_call_node(
    preprocessing_result: PreprocessingResult | None, input_type: InputType, trace_id: str, *, model: ModelBackend
) -> Answered | Refused:
    """Call the model once with exactly the preprocessing result."""
    asked = preprocessing_result or PreprocessingResult()
    image = asked.image if input_type == "image" else None
    try:
        response = await model.generate(ModelRequest(prompt=asked.content, image=image, trace_id=trace_id))
    except (CapabilityError, BudgetExceeded) as error:  # a backend returns its failures; the gate raises
        response = _failed(error)
    return Answered(model_response=response) if response.status == "success" else Refused(model_response=response)


async def result_handling_node(model_response: ModelResponse | None) -> Handled:
    """Use the model's answer as the output, unless it is blank."""
    output = model_response.output if model_response else None
    return Handled(
        final_output=output if output and not output.isspace() else None,
        model_metadata=model_response.metadata if model_response else None,
    )


async def error_router_node(model_response: ModelResponse | None, preprocessing_result: PreprocessingResult | None) -> Classified:
    """Classify the failure and write a message as the output."""
    error_type: ErrorType = "invalid_output"
    reason: object = ""
    if model_response is not None:
        if model_response.status != "success":
            error_type = model_response.error_type or "backend_unavailable"
            reason = (model_response.metadata or {}).get("reason")
    elif preprocessing_result is not None and preprocessing_result.problem is not None:
        error_type, reason = preprocessing_result.problem, preprocessing_result.reason
    return Classified(error_type=error_type, final_output=reason if isinstance(reason, str) and reason.strip() else MESSAGES[error_type])


async def format_response_node(
    conversation_id: str,
    trace_id: str,
    final_output: str | None,
    error_type: ErrorType | None,
    model_metadata: Metadata | None,
) -> Formatted:
    """Build the reply."""
    return Formatted(
        response=Response(
            conversation_id=conversation_id,
            trace_id=trace_id,
            status="success" if error_type is None else "error",
            output=final_output or "",
            error_type=error_type,
            metadata=model_metadata,
        )
    )


def _failed(error: CapabilityError | BudgetExceeded) -> ModelResponse:
    """Convert an error that the gate raised (time limit, size or budget) to a response."""
    error_type: ModelErrorType = "backend_unavailable"
    if isinstance(error, BudgetExceeded):
        error_type = "budget_exceeded"
    elif isinstance(error, ModelTimeout | CapabilityTimeout):
        error_type = "timeout"
    metadata: Metadata = {"cause": error.code}
    if isinstance(error, _WITH_PUBLIC_MESSAGE):
        metadata["reason"] = error.message
    return ModelResponse(status="recoverable_error" if error.transient else "fatal_error", error_type=error_type, metadata=metadata)


async def _from_uri(uri: DataUri, input_type: InputType, question: str, *, transcriber: Transcriber, images: Images) -> Preprocessed:
    if input_type == "text" and not _TEXT.fullmatch(uri.media_type):
        raise MediaUnsupported
    content = uri.content()
    if content is None:
        raise MediaMalformed
    if input_type == "text":
        return _ready(content.decode("utf-8-sig"), question)
    if sniff(content) != uri.media_type:
        raise MediaMalformed if uri.is_known or sniff(content) else MediaUnsupported
    if input_type == "audio":
        check_audio(content, media_type=uri.media_type)
        return _ready(await transcriber.transcribe(content, media_type=uri.media_type), question, when_empty="media_malformed")
    image = await images.normalise(content, media_type=uri.media_type)
    made = DataUri.read(image)
    if made is None or made.kind != "image":
        raise MediaMalformed
    asked = _normalised(question) or IMAGE_PROMPT
    if len(asked) > MAX_TEXT:
        return _rejected("input_too_large")
    return Preprocessed(preprocessing_result=PreprocessingResult(content=asked, image=image))


def _mismatch(uri: DataUri) -> str:
    """Describe how a file differs from its declared type. Return "" if its actual type is unknown."""
    content = uri.content()
    if content is None:
        return "The data URI is not valid base64."
    found = sniff(content)
    return f"The file is declared as '{_shown(uri.media_type)}', but is '{found}'." if found not in {None, uri.media_type} else ""


def _shown(media_type: str) -> str:
    return media_type[:_MAX_SHOWN]


def _ready(text: str, question: str = "", *, when_empty: InputProblem = "input_empty") -> Preprocessed:
    """Build the prompt: the question, if there is one, then the text."""
    subject, asked = _normalised(text), _normalised(question)
    if not subject:
        return _rejected(when_empty)
    prompt = f"{asked}\n\n{subject}" if asked else subject
    if len(prompt) > MAX_TEXT:
        return _rejected("input_too_large")
    return Preprocessed(preprocessing_result=PreprocessingResult(content=prompt))


def _rejected(problem: InputProblem, reason: str = "") -> Preprocessed:
    return Preprocessed(preprocessing_result=PreprocessingResult(problem=problem, reason=reason))


def _normalised(text: str) -> str:
    """Normalise to NFC, remove control characters, trim the end. Keep line breaks and indentation."""
    if not text.isprintable():
        lines = _LINE_BREAK.sub("\n", text)
        text = "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) != "Cc")
    return unicodedata.normalize("NFC", text).rstrip()
