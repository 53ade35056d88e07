"""OpenAI's chat completions, below /v1: a model is an agent, a conversation is a session, a completion is the reply of a turn.

`messages` ends with the user's message, which is the input. The messages before it are the client's copy of the session, which the
agent has itself. What an agent decides for itself (`temperature`, `max_tokens`, `tools` and the like) is accepted and not used;
what would change the meaning of the reply (`n`, `response_format`, a `tool_choice` that demands one) is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from interlock.contract.schema import error_summary
from interlock.errors import AgentUnknown, InputSchema
from interlock.server.conversation import Ended, Message, follow_reply, reply_of, say
from interlock.server.events import EventStream, frame
from interlock.server.openai_shapes import (
    ErrorResponse,
    Part,
    Session,
    TurnFailed,
    check_history,
    error_of,
    input_of,
    message_headers,
    model_names,
    read_session,
    split_model,
)
from interlock.server.routing import Json, ServerRoute, principal_of, read_body, server_of

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]

_DONE = b"data: [DONE]\n\n"


class ChatMessage(BaseModel):
    """A message. Only the content of the last one is read."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None


class UserMessage(BaseModel):
    """The message that is the input."""

    model_config = ConfigDict(hide_input_in_errors=True)

    role: Literal["user"]
    content: str | list[Part]


class StreamOptions(BaseModel):
    """What a stream has beside the text."""

    include_usage: bool = False


class ResponseFormat(BaseModel):
    """The form of the reply."""

    type: Literal["text"] = "text"


class ChatBody(BaseModel):
    """A request. Fields that are not here are not used."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    metadata: Session | None = None
    n: Literal[1] | None = 1
    response_format: ResponseFormat | None = None
    tool_choice: Literal["auto", "none"] | None = None
    logprobs: Literal[False] | None = None


async def list_models(request: Request) -> Response:
    """Return the agents that the caller may use, with their roles."""
    return Json({"object": "list", "data": [_model(name) for name in _models(request)]})


async def get_model(request: Request) -> Response:
    """Return an agent."""
    name = request.path_params["model"]
    if name not in _models(request):
        raise AgentUnknown(f"There is no model '{name}'.")
    return Json(_model(name))


def _models(request: Request) -> list[str]:
    principal = principal_of(request)
    agents = server_of(request).agents.values()
    return [name for agent in agents for name in model_names(agent, [role for role in agent.entries if principal.has(role)])]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "interlock"}


async def complete(request: Request) -> Response:
    """Run a turn, or answer the question of one, and return the reply: at once when it has ended, or as it arrives."""
    server, principal = server_of(request), principal_of(request)
    body = await read_body(request, ChatBody)
    name, role = split_model(body.model)
    agent = server.service.agent(principal, name)
    session = read_session(request, body.metadata)
    check_history(agent, session, sum(message.role not in {"system", "developer"} for message in body.messages))
    message = await say(
        server,
        principal,
        agent,
        input_of(_content(body.messages[-1])),
        session=session,
        role=role,
        key=request.headers.get("idempotency-key"),
    )
    headers = message_headers(request, message)
    if body.stream:
        has_usage = body.stream_options is not None and body.stream_options.include_usage
        return EventStream(_chunks(server, message, body.model, has_usage=has_usage), headers)
    ended = await reply_of(server, message)
    if ended.error is not None:
        return ErrorResponse(TurnFailed(ended.error, ended.text), headers)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": ended.text, "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    completion = {"object": "chat.completion", "choices": [choice], "usage": _usage(ended)}
    return Json(_identity(message, body.model) | completion, headers=headers)


def _content(message: ChatMessage) -> str | list[Part]:
    """Return the content of the last message, which has to be one of the user."""
    try:
        return UserMessage.model_validate(message.model_dump(), strict=True).content
    except ValidationError as error:
        problem = error_summary(error)
    raise InputSchema(f"The last message is not one of the user, with text or a file: {problem}.")


async def _chunks(server: Server, message: Message, model: str, *, has_usage: bool) -> AsyncGenerator[list[bytes], None]:
    """Yield a reply as it arrives: the role, the text, the reason of its end, and the usage if it is wanted."""
    identity = _identity(message, model) | {"object": "chat.completion.chunk"} | ({"usage": None} if has_usage else {})

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        return frame({**identity, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    yield [chunk({"role": "assistant", "content": ""})]
    async with aclosing(follow_reply(server, message)) as following:
        async for arrived in following:
            if isinstance(arrived, list):
                yield [chunk({"content": text}) for text in arrived]
            elif arrived.error is not None:
                yield [frame(error_of(TurnFailed(arrived.error))[1]), _DONE]
            else:
                usage = [frame({**identity, "choices": [], "usage": _usage(arrived)})] if has_usage else []
                yield [chunk({}, "stop"), *usage, _DONE]


def _identity(message: Message, model: str) -> dict[str, Any]:
    turn = message.turn
    return {
        "id": f"chatcmpl-{message.id}",
        "created": int(turn.created),
        "model": model,
        "system_fingerprint": f"fp_{turn.fingerprint[:16]}",
        "metadata": {"session_id": turn.session, "turn": turn.turn},
    }


def _usage(ended: Ended) -> dict[str, int]:
    total = ended.input_tokens + ended.output_tokens
    return {"prompt_tokens": ended.input_tokens, "completion_tokens": ended.output_tokens, "total_tokens": total}


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of chat completions and of models."""
    return [
        ServerRoute("GET", "/v1/models", list_models, on_error=ErrorResponse),
        ServerRoute("GET", "/v1/models/{model:path}", get_model, on_error=ErrorResponse),
        ServerRoute("POST", "/v1/chat/completions", complete, on_error=ErrorResponse),
    ]
