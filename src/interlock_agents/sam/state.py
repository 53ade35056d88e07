"""The state of sam, and the outcomes of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator
from typing_extensions import TypedDict

from interlock.contract import Control, Outcome, Trusted, Untrusted
from interlock_agents.sam.capabilities import Metadata, ModelErrorType, ModelResponse

__all__ = [
    "AgentState",
    "Answered",
    "CallModel",
    "Classified",
    "Command",
    "ErrorType",
    "Failure",
    "Formatted",
    "Handled",
    "Id",
    "Initialised",
    "InputProblem",
    "InputType",
    "Preprocess",
    "Preprocessed",
    "PreprocessingResult",
    "Refused",
    "Response",
    "Routed",
    "Success",
    "TextWithFile",
]

InputType = Literal["text", "audio", "image"]
Command = Literal["preprocess", "call_model", "success", "failure"]
InputProblem = Literal["unsupported_media", "media_malformed", "media_bomb", "input_too_large", "input_empty", "timeout", "budget_exceeded"]
ErrorType = Literal[ModelErrorType, InputProblem]

MAX_ID = 128


def _check_id(text: str) -> str:
    if not 1 <= len(text) <= MAX_ID or not text.isprintable():
        raise ValueError(f"an id is 1 to {MAX_ID} printable characters")
    return text


Id: TypeAlias = Annotated[str, AfterValidator(_check_id)]


class TextWithFile(TypedDict):
    """A question, and the file that it is about, as a data URI."""

    text: str
    file: str


@dataclass(frozen=True, kw_only=True)
class PreprocessingResult:
    """The prompt, and an image as a data URI. Without a prompt, `problem` and `reason` say why the input cannot be used."""

    content: str = ""
    image: str | None = None
    problem: InputProblem | None = None
    reason: str = ""

    def __len__(self) -> int:
        return len(self.content)


@dataclass(kw_only=True)
class Response:
    """The reply."""

    conversation_id: str
    trace_id: str
    status: Literal["success", "error"]
    output: str
    error_type: ErrorType | None = None
    metadata: Metadata | None = None


@dataclass
class AgentState:
    """The fields of the source document, and `response`, which is the graph's result."""

    # Identity
    conversation_id: Annotated[Id, Untrusted]
    trace_id: Annotated[Id, Untrusted]
    created_at: Annotated[str, Trusted]

    # Input, routing
    input_type: Annotated[InputType, Control]
    raw_input: Annotated[str | TextWithFile, Untrusted]

    # Processing
    preprocessing_result: Annotated[PreprocessingResult | None, Untrusted] = None

    # Model
    model_response: Annotated[ModelResponse | None, Untrusted] = None
    model_metadata: Annotated[Metadata | None, Untrusted] = None

    # Output
    final_output: Annotated[str | None, Untrusted] = None
    error_type: Annotated[ErrorType | None, Control] = None
    response: Annotated[Response | None, Untrusted] = None

    # Control
    command: Annotated[Command | None, Control] = None


class Routed(Outcome):
    """The kind of input is known."""

    input_type: InputType


class Initialised(Outcome):
    """The turn has its identity, and nothing of an earlier turn is left."""

    conversation_id: Id
    trace_id: Id
    created_at: str
    preprocessing_result: None = None
    model_response: None = None
    model_metadata: None = None
    final_output: None = None
    error_type: None = None
    response: None = None
    command: None = None


class Preprocess(Outcome):
    """The input is preprocessed next."""

    command: Literal["preprocess"] = "preprocess"


class CallModel(Outcome):
    """The model is called next."""

    command: Literal["call_model"] = "call_model"


class Success(Outcome):
    """There is an answer."""

    command: Literal["success"] = "success"


class Failure(Outcome):
    """The last step produced no result."""

    command: Literal["failure"] = "failure"


class Preprocessed(Outcome):
    """The input is ready for the model, or is empty with the reason."""

    preprocessing_result: PreprocessingResult


class Answered(Outcome):
    """The model answered."""

    model_response: ModelResponse


class Refused(Outcome):
    """The model did not answer."""

    model_response: ModelResponse


class Handled(Outcome):
    """The model's answer is the output, or the output is empty because the answer is blank."""

    final_output: str | None
    model_metadata: Metadata | None


class Classified(Outcome):
    """The failure has a type and a message."""

    error_type: ErrorType
    final_output: str


class Formatted(Outcome):
    """The reply is ready."""

    response: Response
