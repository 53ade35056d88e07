"""What OpenAI's protocols share: messages as an input, the session of a request, models as agents, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.responses import Response

from interlock.errors import InputError, InputSchema, InterlockError, MediaMalformed, MediaUnsupported, TurnStopped
from interlock.input import check_session
from interlock.server.problems import Problem, problem_of
from interlock.server.request_errors import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from interlock.agent import Agent
    from interlock.server.conversation import Message

__all__ = [
    "ErrorResponse",
    "Part",
    "Session",
    "Text",
    "TurnFailed",
    "check_history",
    "error_of",
    "input_of",
    "message_headers",
    "model_names",
    "read_session",
    "split_model",
]

_SESSION_HEADERS = ("x-interlock-session", "x-openwebui-chat-id", "x-conversation-id")
_RETRIED = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class Text(BaseModel):
    """A part of a message that is text, in either protocol."""

    model_config = ConfigDict(hide_input_in_errors=True)

    type: Literal["text", "input_text", "output_text"]
    text: str


class ImageUrl(BaseModel):
    """An image of a chat message."""

    url: str


class InputAudio(BaseModel):
    """A sound of a chat message."""

    data: str
    format: str = Field(pattern=r"^[A-Za-z0-9.+-]{1,20}$")


class InputFile(BaseModel):
    """A file of a chat message."""

    file_data: str


class Image(BaseModel):
    """An image."""

    type: Literal["image_url", "input_image"]
    image_url: ImageUrl | str


class Audio(BaseModel):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: InputAudio


class File(BaseModel):
    """A file, in the form of either protocol."""

    type: Literal["file", "input_file"]
    file: InputFile | None = None
    file_data: str | None = None


Part = Annotated[Text | Image | Audio | File, Field(discriminator="type")]


def input_of(content: str | Sequence[Part]) -> str | dict[str, Any]:
    """Return the input that a message is: its text, its file, or both. Raises InputSchema where it has several files, or a URL."""
    if isinstance(content, str):
        return content
    text = "\n".join(part.text for part in content if isinstance(part, Text))
    files = [_data_uri(part) for part in content if not isinstance(part, Text)]
    if len(files) > 1:
        raise InputSchema("A message has one file at most.")
    if not files:
        return text
    return {"text": text, "file": files[0]} if text else files[0]


def _data_uri(part: Image | Audio | File) -> str:
    match part:
        case Image():
            uri = part.image_url if isinstance(part.image_url, str) else part.image_url.url
        case Audio():
            uri = f"data:audio/{part.input_audio.format};base64,{part.input_audio.data}"
        case File():
            uri = part.file_data or (part.file.file_data if part.file is not None else "")
    if not uri.startswith("data:"):
        raise InputSchema("A file is part of the message, as a URI that begins with 'data:'. The server fetches no files.")
    return uri


def split_model(model: str) -> tuple[str, str | None]:
    """Return the agent and the role that a model's name is: `sam`, `gateway/admin`."""
    agent, slash, role = model.partition("/")
    return agent, role if slash else None


def model_names(agent: Agent, roles: Sequence[str | None]) -> list[str]:
    """Return the names of an agent's models, for the roles that a caller has."""
    return [agent.name if role is None else f"{agent.name}/{role}" for role in roles]


class Session(BaseModel):
    """The metadata of a request that names a session."""

    model_config = ConfigDict(hide_input_in_errors=True)

    session_id: str | None = None


def read_session(request: Request, metadata: Session | None) -> str | None:
    """Return the session that a request names, by a header or by its metadata. Raises InputSchema where they contradict each other."""
    named = [value for name in _SESSION_HEADERS if (value := request.headers.get(name)) is not None]
    if metadata is not None and metadata.session_id is not None:
        named.append(metadata.session_id)
    if len(set(named)) > 1:
        raise InputSchema("The request names several sessions.")
    return check_session(named[0]) if named else None


def check_history(agent: Agent, session: str | None, messages: int) -> None:
    """Refuse a conversation whose session is not named, for an agent that has sessions: it would not know the earlier messages."""
    if agent.has_sessions and session is None and messages > 1:
        raise InputSchema(
            f"The request has earlier messages, and agent '{agent.name}' keeps its conversations itself, in sessions."
            " Name the session in the header 'X-Interlock-Session' or in 'metadata.session_id'; each reply has it in both."
        )


def message_headers(request: Request, message: Message) -> dict[str, str]:
    """Return the headers of a reply, which also name its turn and session in the access log."""
    turn = message.turn
    request.state.turn, request.state.session = turn.turn, turn.session
    return {"x-interlock-turn": turn.turn, "x-interlock-session": turn.session}


@dataclass(frozen=True)
class TurnFailed:
    """A turn that failed, with what it had to say until then."""

    cause: InterlockError
    partial: str = ""


def error_of(error: InterlockError | TurnFailed) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error."""
    cause = error.cause if isinstance(error, TurnFailed) else error
    status, message = problem_of(cause)["status"], problem_of(cause)["detail"]
    kind = _TYPES.get(status, "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error")
    body: dict[str, Any] = {"message": message, "type": kind, "param": None, "code": cause.code}
    if isinstance(error, TurnFailed):
        # The message of a turn's error is part of its result, which the caller may see.
        body |= {"message": cause.message, "type": "turn_error"} | (
            {"partial": error.partial} if error.partial not in {"", cause.message} else {}
        )
        status = _turn_status(cause)
    return status, {"error": body}


def _turn_status(error: InterlockError) -> int:
    """Return the status of a turn that failed: by its input, because it was cancelled, or behind the server."""
    if isinstance(error, RequestError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, InputError | MediaMalformed | MediaUnsupported):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.CONFLICT if isinstance(error, TurnStopped) else HTTPStatus.BAD_GATEWAY


class ErrorResponse(Response):
    """An error in OpenAI's form. Its clients send a request again that must not run twice; a header tells them when they may."""

    media_type = "application/json"

    def __init__(self, error: InterlockError | TurnFailed, headers: Mapping[str, str] | None = None) -> None:
        status, body = error_of(error)
        usual = {} if isinstance(error, TurnFailed) else dict(Problem(error).headers)
        kept = {name: value for name, value in usual.items() if name in {"retry-after", "www-authenticate"}}
        may_retry = "true" if status in _RETRIED and not isinstance(error, TurnFailed) else "false"
        super().__init__(to_json(body), status_code=status, headers={**kept, "x-should-retry": may_retry, **(headers or {})})
