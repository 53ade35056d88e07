"""What A2A requests and results look like: messages, tasks, the card of an agent, errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from pydantic.alias_generators import to_camel

from interlock.errors import InputError, InputSchema, InterlockError, MediaMalformed, MediaUnsupported, TurnStopped
from interlock.runtime.turns import StoredTurn, TurnStatus
from interlock.server.conversation import Ended
from interlock.server.problems import problem_of

if TYPE_CHECKING:
    from interlock.agent import Agent

__all__ = [
    "PROTOCOL_VERSION",
    "RpcError",
    "RpcRequest",
    "SendMessage",
    "TaskId",
    "artifact_of",
    "card_of",
    "ended_status",
    "input_of",
    "rpc_error_of",
    "task_of",
]

PROTOCOL_VERSION = "1.0"
_STATES: Mapping[TurnStatus, str] = {
    "queued": "TASK_STATE_SUBMITTED",
    "ready": "TASK_STATE_SUBMITTED",
    "running": "TASK_STATE_WORKING",
}
"""Of turns that do not rest; how a reply ended says the others."""
_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
    "PARSE_ERROR": -32700,
}


class RpcError(Exception):
    """A call that is refused, with the protocol's name for why."""

    def __init__(self, reason: str, message: str, code: str = "request_invalid") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code

    def to_json(self) -> dict[str, Any]:
        """Return the error as JSON-RPC has it, with Interlock's code in its details."""
        detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.reason, "domain": "a2a-protocol.org"}
        return {"code": _CODES[self.reason], "message": self.message, "data": [detail | {"metadata": {"code": self.code}}]}


def rpc_error_of(error: InterlockError) -> RpcError:
    """Return an error of Interlock as one of the protocol."""
    problem = problem_of(error)
    reason = "INVALID_PARAMS" if problem["status"] < HTTPStatus.INTERNAL_SERVER_ERROR else "INTERNAL_ERROR"
    return RpcError(reason, problem["detail"], error.code)


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True)


class RpcRequest(BaseModel):
    """A JSON-RPC request."""

    model_config = ConfigDict(hide_input_in_errors=True)

    jsonrpc: Literal["2.0"]
    id: StrictStr | StrictInt | None
    method: str
    params: dict[str, Any] = Field(default_factory=dict[str, Any])


class MessagePart(_Shape):
    """A part of a message: one of text, the content of a file in base64, a URL, or data."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    media_type: Annotated[str, Field(pattern=r"^([A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60})?$")] = ""


class TaskMessage(_Shape):
    """A message of a client."""

    message_id: str = Field(min_length=1, max_length=200)
    role: Literal["ROLE_USER"]
    parts: list[MessagePart] = Field(min_length=1)
    task_id: str = ""
    context_id: str = ""


class Configuration(_Shape):
    """What a client wants of the result."""

    return_immediately: bool = False
    task_push_notification_config: dict[str, Any] | None = None


class SendMessage(_Shape):
    """The parameters of a message. Fields that are not here are not used."""

    message: TaskMessage
    configuration: Configuration = Field(default_factory=Configuration)


class TaskId(_Shape):
    """The parameters of what is done with a task."""

    id: str


def input_of(message: TaskMessage) -> str | Mapping[str, Any]:
    """Return the input that a message is: its text, its file, or both; or fields as data. Raises RpcError and InputSchema."""
    texts = [part.text for part in message.parts if part.text is not None]
    files = [part for part in message.parts if part.raw is not None]
    fields = [part.data for part in message.parts if part.data is not None]
    if any(part.url is not None for part in message.parts):
        raise RpcError("CONTENT_TYPE_NOT_SUPPORTED", "The server fetches no URLs: a file is part of the message.", "input_schema")
    if len(texts) + len(files) + len(fields) != len(message.parts):
        raise InputSchema("A part has one of 'text', 'raw', 'url' and 'data'.")
    if fields:
        if len(message.parts) > 1 or not isinstance(fields[0], dict):
            raise InputSchema("Data is the only part of its message, and an object with the input fields.")
        return cast("dict[str, Any]", fields[0])
    if len(files) > 1:
        raise InputSchema("A message has one file at most.")
    text = "\n".join(texts)
    if not files:
        return text
    file = f"data:{files[0].media_type or 'application/octet-stream'};base64,{files[0].raw}"
    return {"text": text, "file": file} if text else file


def card_of(agent: Agent, role: str | None, url: str, *, with_keys: bool) -> dict[str, Any]:
    """Return the card of an agent that is entered by a role."""
    name = agent.name if role is None else f"{agent.name}/{role}"
    card: dict[str, Any] = {
        "name": name,
        "description": agent.summary,
        "version": version("interlock"),
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": name, "name": name, "description": agent.summary, "tags": [agent.name]}],
    }
    if with_keys:
        card["securitySchemes"] = {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Api-Key"}},
        }
        card["securityRequirements"] = [{"schemes": {name: {"list": []}}} for name in card["securitySchemes"]]
    return card


def task_of(turn: StoredTurn, ended: Ended | None) -> dict[str, Any]:
    """Return a turn as a task; `ended` says how it rests."""
    since = turn.ended if ended is not None else (turn.started if turn.status == "running" else turn.created)
    status = {"state": _STATES.get(turn.status, "TASK_STATE_WORKING")} if ended is None else ended_status(turn, ended)
    if since is not None:
        status["timestamp"] = datetime.fromtimestamp(since, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    task: dict[str, Any] = {"id": turn.turn, "contextId": turn.session, "status": status}
    if ended is not None and ended.error is None and ended.asks is None:
        task["artifacts"] = [artifact_of(ended.text)]
    return task


def artifact_of(text: str) -> dict[str, Any]:
    """Return the reply, or a chunk of it. All chunks are of one artifact."""
    return {"artifactId": "reply", "name": "reply", "parts": [{"text": text}]}


def ended_status(turn: StoredTurn, ended: Ended) -> dict[str, Any]:
    """Return the status of a task as a reply ended."""
    if ended.asks is not None:
        # To the client, a task whose question is for another person is at work: it has nothing to give.
        is_passed_on = bool(ended.asks.get("to"))
        parts: list[dict[str, Any]] = [{"text": ended.text}]
        if not is_passed_on:
            parts.append({"data": {name: ended.asks[name] for name in ("question", "options", "recommended")}})
        message = _message(turn, f"{turn.turn}.{turn.attempts}", parts)  # After each answer, a worker claims the turn again.
        return {"state": "TASK_STATE_WORKING" if is_passed_on else "TASK_STATE_INPUT_REQUIRED", "message": message}
    if ended.error is None:
        return {"state": "TASK_STATE_COMPLETED"}
    is_refused = isinstance(ended.error, InputError | MediaMalformed | MediaUnsupported)
    state = "TASK_STATE_REJECTED" if is_refused else "TASK_STATE_FAILED"
    if isinstance(ended.error, TurnStopped):
        state = "TASK_STATE_CANCELED"
    message = _message(turn, f"{turn.turn}.error", [{"text": ended.error.message}]) | {"metadata": {"code": ended.error.code}}
    return {"state": state, "message": message}


def _message(turn: StoredTurn, id_: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"messageId": id_, "taskId": turn.turn, "contextId": turn.session, "role": "ROLE_AGENT", "parts": parts}
