"""OpenAI's responses, below /v1, in the form of Open Responses: a response is the reply of a turn.

`previous_response_id` continues the session of that response, whose last reply it has to be; `conversation` names a session. A response
is stored as long as its turn is, so it can be read, followed and cancelled later, also one that was made in the background.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import InputSchema, TurnUnknown
from interlock.runtime.turns import Page, StoredTurn
from interlock.server.conversation import Ended, Message, continues, find_reply, follow_reply, last_reply, reply_of, say, was_said
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
    read_session,
    split_model,
)
from interlock.server.request_errors import NotFound, RequestError
from interlock.server.routing import Json, ServerRoute, principal_of, read_body, read_number, server_of

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]

_SEARCHED = 20
"""How many turns of a session are looked at for a request that is sent again."""
_ID = re.compile(r"resp_([\x21-\x7e]+?)(?:\.(\d{1,12}))?")


class Item(BaseModel):
    """A message of the input. Only the content of the last one is read."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | list[dict[str, Any]]


class TextFormat(BaseModel):
    """The form of the text."""

    type: Literal["text"] = "text"


class TextOptions(BaseModel):
    """How the text is written."""

    format: TextFormat | None = None


class Conversation(BaseModel):
    """The session, by its id."""

    id: str


class ResponseBody(BaseModel):
    """A request. Fields that are not here are not used."""

    model_config = ConfigDict(hide_input_in_errors=True)

    model: str
    input: str | list[Item] = Field(min_length=1)
    stream: bool | None = False
    background: bool | None = False
    store: Literal[True] | None = True
    previous_response_id: str | None = None
    conversation: str | Conversation | None = None
    metadata: Session | None = None
    text: TextOptions | None = None
    tool_choice: Literal["auto", "none"] | None = None


async def create_response(request: Request) -> Response:
    """Run a turn, or answer the question of one: return the response when it has ended, as it arrives, or at once."""
    server, principal = server_of(request), principal_of(request)
    body = await read_body(request, ResponseBody)
    name, role = split_model(body.model)
    agent = server.service.agent(principal, name)
    given, messages = _input(body.input)
    key = request.headers.get("idempotency-key")
    session = await _session(request, body, agent.name, key)
    check_history(agent, session, messages)
    message = await say(server, principal, agent, given, session=session, role=role, key=key)
    headers = message_headers(request, message)
    shown = _Shown(message, previous=body.previous_response_id, is_background=bool(body.background))
    if body.stream:
        return EventStream(_events(server, shown, after=-1), headers)
    if body.background:
        return Json(shown.resource(_open_status(message.turn)), headers=headers)
    ended = await reply_of(server, message)
    if ended.error is not None:
        return ErrorResponse(TurnFailed(ended.error, ended.text), headers)
    return Json(shown.ended(ended, await _completed_at(server, ended)), headers=headers)


def _input(given: str | list[Item]) -> tuple[str | dict[str, Any], int]:
    """Return the last message as the input of a turn, and how many messages there are. Raises InputSchema."""
    if isinstance(given, str):
        return given, 1
    last = given[-1]
    if last.role != "user" or (isinstance(last.content, list) and any(isinstance(part, dict) for part in last.content)):
        raise InputSchema("The last message is not one of the user, with text or a file.")
    content: Any = last.content
    return input_of(content), sum(item.role not in {"system", "developer"} for item in given)


async def _session(request: Request, body: ResponseBody, agent: str, key: str | None) -> str | None:
    """Return the session that a request names. Raises InputSchema where it names several."""
    named = [read_session(request, body.metadata)]
    if body.conversation is not None:
        named.append(body.conversation if isinstance(body.conversation, str) else body.conversation.id)
    if body.previous_response_id is not None:
        named.append(await _continued(request, body.previous_response_id, agent, key))
    sessions = list(dict.fromkeys(one for one in named if one is not None))
    if len(sessions) > 1:
        raise InputSchema("The request names several sessions.")
    return sessions[0] if sessions else None


async def _continued(request: Request, previous: str, agent: str, key: str | None) -> str:
    """Return the session of a response. Raises InputSchema where it is another agent's, or not the last one of its session."""
    server, principal = server_of(request), principal_of(request)
    message, _ = await _find(request, previous)
    if message.turn.agent != agent:
        raise InputSchema(f"'previous_response_id' is a response of '{message.turn.agent}'.")
    found = await server.service.find(principal, agent=agent, session=message.turn.session, page=Page(limit=_SEARCHED))
    # A request that is sent again with its key comes after its own turn.
    is_again = key is not None and any(was_said(turn, key) for turn in found)
    if not is_again and not continues(message, await last_reply(server, found[0])):
        raise InputSchema("'previous_response_id' is not the last response of its session: a conversation continues from its end.")
    return message.turn.session


async def _find(request: Request, name: str) -> tuple[Message, bool]:
    """Return the message that a response is the reply to, and whether the response is complete. Raises NotFound."""
    server, named = server_of(request), _ID.fullmatch(name)
    found = None
    with suppress(TurnUnknown, InputSchema):
        if named is not None:
            turn = await server.service.get(principal_of(request), named[1])
            found = await find_reply(server, turn, int(named[2] or 0))
    if found is None:
        raise NotFound(f"There is no response '{name}'.")
    return found


async def get_response(request: Request) -> Response:
    """Return a response as it is now, or follow it, from the event after `starting_after` on."""
    message, _ = await _find(request, request.path_params["response"])
    if request.query_params.get("stream") != "true":
        return await _now(request)
    after = read_number(request, "starting_after", -1, most=1e12)
    return EventStream(_events(server_of(request), _Shown(message), after=int(after)), message_headers(request, message))


async def cancel_response(request: Request) -> Response:
    """Cancel the turn of a response."""
    message, _ = await _find(request, request.path_params["response"])
    await server_of(request).service.cancel(principal_of(request), message.turn.turn)
    return await _now(request)


async def _now(request: Request) -> Response:
    """Return a response as it is now."""
    server = server_of(request)
    message, is_complete = await _find(request, request.path_params["response"])
    shown, headers = _Shown(message), message_headers(request, message)
    if is_complete:
        ended = await reply_of(server, message)
        return Json(shown.ended(ended, await _completed_at(server, ended)), headers=headers)
    return Json(shown.resource(_open_status(message.turn)), headers=headers)


def _open_status(turn: StoredTurn) -> str:
    return "queued" if turn.status in {"queued", "ready"} else "in_progress"


class _Shown:
    """A response as JSON."""

    def __init__(self, message: Message, *, previous: str | None = None, is_background: bool = False) -> None:
        self.message = message
        self.id = f"resp_{message.id}"
        self.item = f"msg_{message.id}"
        turn = message.turn
        self._identity: dict[str, Any] = {
            "id": self.id,
            "object": "response",
            "created_at": int(turn.created),
            "model": turn.agent if turn.role is None else f"{turn.agent}/{turn.role}",
            "previous_response_id": previous,
            "conversation": {"id": turn.session},
            "metadata": {"session_id": turn.session, "turn": turn.turn},
            "background": is_background,
            "store": True,
            **_UNUSED,
        }

    def resource(self, status: str, **more: Any) -> dict[str, Any]:
        """Return the response with a status."""
        empty: dict[str, Any] = {"completed_at": None, "error": None, "incomplete_details": None, "output": [], "usage": None}
        return {**self._identity, "status": status, **empty, **more}

    def ended(self, ended: Ended, completed_at: int | None) -> dict[str, Any]:
        """Return the response with the message that it ended with, or with its error."""
        usage = _usage(ended)
        if ended.error is None:
            return self.resource("completed", output=[self.output(ended.text, "completed")], usage=usage, completed_at=completed_at)
        if ended.error.code == "cancelled":
            return self.resource("cancelled", usage=usage)
        said = [self.output(ended.text, "incomplete")] if ended.text and ended.text != ended.error.message else []
        fault = error_of(TurnFailed(ended.error))[1]["error"]
        return self.resource("failed", output=said, usage=usage, error={"code": fault["code"], "message": fault["message"]})

    def output(self, text: str | None, status: str) -> dict[str, Any]:
        """Return the message of the response."""
        content = [] if text is None else [_text(text)]
        return {"type": "message", "id": self.item, "status": status, "role": "assistant", "content": content}


_UNUSED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "tools": [],
    "tool_choice": "auto",
    "text": {"format": {"type": "text"}},
    "reasoning": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_logprobs": 0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "truncation": "disabled",
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""What the form has for models, and agents decide for themselves."""


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


async def _completed_at(server: Server, ended: Ended) -> int | None:
    """Return when the turn of a reply ended, in seconds since 1970. A turn that waits for a person has not ended."""
    turn = None if ended.asks is not None else await server.interlock.turns.store.get(ended.turn)
    return None if turn is None or turn.ended is None else int(turn.ended)


def _usage(ended: Ended) -> dict[str, Any]:
    return {
        "input_tokens": ended.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": ended.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": ended.input_tokens + ended.output_tokens,
    }


async def _events(server: Server, shown: _Shown, *, after: int) -> AsyncGenerator[list[bytes], None]:
    """Yield the events of a response that have a number over `after`."""
    async with aclosing(_numbered(server, shown)) as numbered:
        async for events in numbered:
            yield [frame(data, event=data["type"]) for data in events if data["sequence_number"] > after]
    yield [b"data: [DONE]\n\n"]


async def _numbered(server: Server, shown: _Shown) -> AsyncGenerator[list[dict[str, Any]], None]:
    """Yield the events of a response, numbered from 0; an empty list where nothing happens for a while."""
    number, said = -1, ""
    place = {"item_id": shown.item, "output_index": 0, "content_index": 0}

    def event(kind: str, **more: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": f"response.{kind}", "sequence_number": number, **more}

    yield [event(kind, response=shown.resource("in_progress")) for kind in ("created", "in_progress")]
    async with aclosing(follow_reply(server, shown.message)) as following:
        async for arrived in following:
            events: list[dict[str, Any]] = []
            if isinstance(arrived, list):
                if arrived and not said:
                    events.append(event("output_item.added", output_index=0, item=shown.output(None, "in_progress")))
                    events.append(event("content_part.added", **place, part=_text("")))
                said += "".join(arrived)
                yield [*events, *(event("output_text.delta", **place, delta=text, logprobs=[]) for text in arrived)]
            elif isinstance(arrived.error, RequestError):
                # The server stops; another one resumes the turn.
                fault = error_of(arrived.error)[1]["error"]
                yield [event("failed") | {"type": "error", "code": fault["code"], "message": fault["message"], "param": None}]
            else:
                response = shown.ended(arrived, await _completed_at(server, arrived))
                if said:
                    item = shown.output(said, "completed" if arrived.error is None else "incomplete")
                    events.append(event("output_text.done", **place, text=said, logprobs=[]))
                    events.append(event("content_part.done", **place, part=_text(said)))
                    events.append(event("output_item.done", output_index=0, item=item))
                    response["output"] = [item]
                yield [*events, event("completed" if arrived.error is None else "failed", response=response)]


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of responses."""
    return [
        ServerRoute("POST", "/v1/responses", create_response, on_error=ErrorResponse),
        ServerRoute("GET", "/v1/responses/{response}", get_response, on_error=ErrorResponse),
        ServerRoute("POST", "/v1/responses/{response}/cancel", cancel_response, on_error=ErrorResponse),
    ]
