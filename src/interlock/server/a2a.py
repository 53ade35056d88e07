"""A2A 1.0, the Agent2Agent protocol, at /a2a/AGENT and /a2a/AGENT/ROLE: an agent by its card, and its turns as tasks over JSON-RPC.

A task is a turn, and a context is a session. A turn that asks a person is a task that requires input; the next message with the id of
the task is the answer. A refusal of the call itself is a JSON-RPC error; what is refused before it is read (the key, the agent, the
size, the rate) is an error of HTTP, as on every route.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from interlock.contract.schema import error_summary
from interlock.errors import InputSchema, InterlockError, NothingWaits, TurnUnknown
from interlock.input import check_session
from interlock.runtime.events import Event
from interlock.runtime.turns import ENDED, StoredTurn
from interlock.server.a2a_shapes import (
    PROTOCOL_VERSION,
    RpcError,
    RpcRequest,
    SendMessage,
    TaskId,
    artifact_of,
    card_of,
    ended_status,
    input_of,
    rpc_error_of,
    task_of,
)
from interlock.server.conversation import (
    Ended,
    Message,
    SpokenText,
    ended_of,
    follow_events,
    last_reply,
    questions_of,
    reply_of,
    said_before,
    say,
)
from interlock.server.events import EventStream, frame
from interlock.server.problems import status_of
from interlock.server.request_errors import NotFound, Overloaded
from interlock.server.routing import Json, ServerRoute, principal_of, server_of
from interlock.server.service import rests

if TYPE_CHECKING:
    from interlock.agent import Agent
    from interlock.server.app import Server
    from interlock.server.auth import Principal

__all__ = ["routes"]

_OF_HTTP = {401, 403, 404, 413, 429, 503}
"""The statuses of refusals that a client, or a proxy before it, acts on by the status."""
_REST_S = 10.0
"""How long is waited until a turn whose end is known, or wanted, is stored as ended."""
_WELL_KNOWN = "/.well-known/agent-card.json"
S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True)
class _Called:
    """One call of an agent by a principal."""

    request: Request
    server: Server
    principal: Principal
    agent: Agent
    role: str | None
    call: RpcRequest

    def params(self, shape: type[S]) -> S:
        """Return the parameters. Raises RpcError."""
        try:
            return shape.model_validate(self.call.params, strict=True)
        except ValidationError as error:
            problem = error_summary(error)
        raise RpcError("INVALID_PARAMS", f"The parameters cannot be used: {problem}.")

    def answer(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON-RPC response with a result. Secrets that became known since are removed."""
        return {"jsonrpc": "2.0", "id": self.call.id, "result": self.server.interlock.redactor.data(result)}

    async def turn(self, id_: str) -> StoredTurn:
        """Return the turn that a task is. Raises RpcError, in the same words for one of another tenant, role or agent."""
        try:
            found = await self.server.service.get(self.principal, id_)
        except (TurnUnknown, InputSchema):
            found = None
        if found is None or (found.agent, found.role) != (self.agent.name, self.role):
            raise RpcError("TASK_NOT_FOUND", "There is no such task.", TurnUnknown.code)
        return found

    def task(self, turn: StoredTurn) -> dict[str, Any]:
        """Return the task that a turn is."""
        return task_of(turn, ended_of(self.server, turn) if rests(turn) else None)

    async def rested(self, turn: StoredTurn) -> StoredTurn:
        """Return a turn whose last event is known: it is stored as ended, or as waiting, a moment later."""
        return await self.server.service.wait(self.principal, turn.turn, timeout_s=_REST_S)


async def card(request: Request) -> Response:
    """Return the card of an agent."""
    agent, role = _entered(request)
    return await _card(request, agent, role, request.path_params.get("role"))


async def first_card(request: Request) -> Response:
    """Return the card of the first agent that the caller may use."""
    principal = principal_of(request)
    for agent in server_of(request).agents.values():
        for role in agent.entries:
            if principal.has(role):
                return await _card(request, agent, role, role)
    raise NotFound


async def _card(request: Request, agent: Agent, role: str | None, named: str | None) -> Response:
    path = "/".join(quote(part, safe="") for part in (agent.name, named) if part is not None)
    is_open = await server_of(request).auth.is_open()
    return Json(card_of(agent, role, f"{request.base_url}a2a/{path}", with_keys=not is_open))


def _entered(request: Request) -> tuple[Agent, str | None]:
    """Return the agent of the path, and the role by which the caller enters it. Raises AgentUnknown, RoleUnknown and InputSchema."""
    service, principal = server_of(request).service, principal_of(request)
    agent = service.agent(principal, request.path_params["agent"])
    return agent, service.role(principal, agent, request.path_params.get("role"))


async def rpc(request: Request) -> Response:
    """Answer a JSON-RPC request."""
    agent, role = _entered(request)
    given, id_ = await request.body(), None
    try:
        content = _parsed(given)
        id_ = _id_of(content)
        call = _request_of(content)
        _check_version(request)
        method = _METHODS.get(call.method, _refuse_method)
        return await method(_Called(request, server_of(request), principal_of(request), agent, role, call))
    except RpcError as error:
        return Json(_failed(id_, error))
    except InterlockError as error:
        if status_of(error) in _OF_HTTP:
            raise
        return Json(_failed(id_, rpc_error_of(error)))


def _failed(id_: str | int | None, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": error.to_json()}


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body)
    except (ValueError, RecursionError):
        raise RpcError("PARSE_ERROR", "The body of the request is not JSON.") from None


def _id_of(content: Any) -> str | int | None:
    found = cast("dict[str, Any]", content).get("id") if isinstance(content, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _request_of(content: Any) -> RpcRequest:
    try:
        return RpcRequest.model_validate(content, strict=True)
    except ValidationError as error:
        problem = error_summary(error)
    raise RpcError("INVALID_REQUEST", f"The body is not one JSON-RPC request: {problem}.")


def _check_version(request: Request) -> None:
    """Refuse a client of another version. One that names none has version 0.3, by the protocol."""
    named = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or "0.3"
    if named.split(".")[:2] != PROTOCOL_VERSION.split("."):
        raise RpcError("VERSION_NOT_SUPPORTED", f"The server speaks version {PROTOCOL_VERSION}, which the header 'A2A-Version' names.")


async def _send(called: _Called) -> Response:
    """Run a turn, or answer the question of one; return its task when it rests, or at once."""
    given = called.params(SendMessage)
    message = await _say(called, given)
    if given.configuration.return_immediately or rests(message.turn):
        return Json(called.answer({"task": called.task(message.turn)}))
    ended = await reply_of(called.server, message)
    if isinstance(ended.error, Overloaded):
        raise ended.error  # The server stops; the task runs on.
    return Json(called.answer({"task": task_of(await called.rested(message.turn), ended)}))


async def _stream(called: _Called) -> Response:
    """Run a turn, or answer the question of one, and stream what happens."""
    return _following(called, await _say(called, called.params(SendMessage)))


async def _subscribe(called: _Called) -> Response:
    """Stream what happens in a task from its last message on."""
    turn = await called.turn(called.params(TaskId).id)
    if turn.status in ENDED:
        raise RpcError("UNSUPPORTED_OPERATION", "The task has ended.")
    return _following(called, await last_reply(called.server, turn))


async def _get(called: _Called) -> Response:
    return Json(called.answer(called.task(await called.turn(called.params(TaskId).id))))


async def _cancel(called: _Called) -> Response:
    """Cancel a task, and return it as it is then."""
    turn = await called.turn(called.params(TaskId).id)
    if turn.status in ENDED:
        raise RpcError("TASK_NOT_CANCELABLE", "The task has ended.")
    await called.server.service.cancel(called.principal, turn.turn)
    return Json(called.answer(called.task(await called.rested(turn))))


async def _refuse_method(_: _Called) -> Response:
    raise RpcError("METHOD_NOT_FOUND", "The protocol has no such method.", "not_found")


async def _refuse_push(_: _Called) -> Response:
    raise RpcError("PUSH_NOTIFICATION_NOT_SUPPORTED", "The server sends no push notifications.")


async def _refuse_operation(_: _Called) -> Response:
    raise RpcError("UNSUPPORTED_OPERATION", "The server does not support this operation.")


_METHODS: Mapping[str, Callable[[_Called], Awaitable[Response]]] = {
    "SendMessage": _send,
    "SendStreamingMessage": _stream,
    "GetTask": _get,
    "CancelTask": _cancel,
    "SubscribeToTask": _subscribe,
    "ListTasks": _refuse_operation,
    "GetExtendedAgentCard": _refuse_operation,
    "CreateTaskPushNotificationConfig": _refuse_push,
    "GetTaskPushNotificationConfig": _refuse_push,
    "ListTaskPushNotificationConfigs": _refuse_push,
    "DeleteTaskPushNotificationConfig": _refuse_push,
}


async def _say(called: _Called, given: SendMessage) -> Message:
    """Accept a message: for the task that it names, or as the next one of its context."""
    if given.configuration.task_push_notification_config is not None:
        await _refuse_push(called)
    said, key = given.message, called.request.headers.get("idempotency-key")
    content = input_of(said)
    session = check_session(said.context_id) if said.context_id else None
    if said.task_id:
        message = await _answer(called, said.task_id, session, content, key)
    else:
        message = await say(called.server, called.principal, called.agent, content, session=session, role=called.role, key=key)
    called.request.state.turn, called.request.state.session = message.turn.turn, message.turn.session
    return message


async def _answer(called: _Called, task: str, session: str | None, content: str | Mapping[str, Any], key: str | None) -> Message:
    """Answer the question of a task. Raises RpcError where it asks nothing."""
    turn, server = await called.turn(task), called.server
    if session not in {None, turn.session}:
        raise RpcError("INVALID_PARAMS", "The task is of another context.", InputSchema.code)
    if not isinstance(content, str):
        raise InputSchema("The answer to a question is text.")
    again = None if key is None else await said_before(server, [turn], content, key)
    if again is not None:
        return again
    if turn.status != "waiting" or (ended_of(server, turn).asks or {}).get("to"):
        raise RpcError("UNSUPPORTED_OPERATION", "The task does not wait for a message.", NothingWaits.code)
    after = (await questions_of(server, turn))[-1]
    try:
        return Message(turn=await server.service.answer(called.principal, turn.turn, content, key=key), after=after)
    except NothingWaits as error:  # Another client was faster.
        raise RpcError("UNSUPPORTED_OPERATION", "The task does not wait for a message.", error.code) from error


def _following(called: _Called, message: Message) -> Response:
    return EventStream(_frames(called, message), {"x-interlock-turn": message.turn.turn, "x-interlock-session": message.turn.session})


async def _frames(called: _Called, message: Message) -> AsyncGenerator[list[bytes], None]:
    try:
        async with aclosing(_results(called, message)) as arriving:
            async for results in arriving:
                yield [frame(called.answer(result)) for result in results]
    except InterlockError as error:
        yield [frame(_failed(called.call.id, rpc_error_of(error)))]


async def _results(called: _Called, message: Message) -> AsyncGenerator[list[dict[str, Any]], None]:
    """Yield the task, and what changes in it until it rests. A task that rests already is all there is."""
    turn = message.turn
    yield [{"task": called.task(turn)}]
    if rests(turn):
        return
    reply, is_working = _Reply(turn, called.agent), turn.status == "running"
    async with aclosing(follow_events(called.server, message)) as following:
        async for arrived in following:
            if isinstance(arrived, Ended):
                if isinstance(arrived.error, Overloaded):
                    raise arrived.error  # The server stops; the client subscribes again.
                yield [*reply.end(arrived), reply.update(ended_status(await called.rested(turn), arrived))]
                return
            results = [result for event in arrived for result in reply.add(event)]
            if arrived and not is_working:
                is_working = True
                results.insert(0, reply.update({"state": "TASK_STATE_WORKING"}))
            if results or not arrived:
                yield results


class _Reply:
    """The reply of a task, as the chunks of an artifact."""

    def __init__(self, turn: StoredTurn, agent: Agent) -> None:
        self._ids = {"taskId": turn.turn, "contextId": turn.session}
        self._spoken = SpokenText(agent.speakers)

    def update(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return a change of the status."""
        return {"statusUpdate": {**self._ids, "status": status}}

    def add(self, event: Event) -> list[dict[str, Any]]:
        """Take an event; return the chunk that comes next, if any."""
        is_first = not self._spoken.sent
        text = self._spoken.add(event)
        return [self._chunk(text, is_first=is_first, is_last=False)] if text else []

    def end(self, ended: Ended) -> list[dict[str, Any]]:
        """Return the last chunk, which replaces the others where the reply is another text; none without a reply."""
        if ended.error is not None or ended.asks is not None:
            return []
        sent = self._spoken.sent
        goes_on = bool(sent) and ended.text.startswith(sent)
        return [self._chunk(ended.text[len(sent) :] if goes_on else ended.text, is_first=not goes_on, is_last=True)]

    def _chunk(self, text: str, *, is_first: bool, is_last: bool) -> dict[str, Any]:
        return {"artifactUpdate": {**self._ids, "artifact": artifact_of(text), "append": not is_first, "lastChunk": is_last}}


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the protocol."""
    addresses = ("/a2a/{agent}", "/a2a/{agent}/{role}")
    return [
        ServerRoute("GET", _WELL_KNOWN, first_card),
        *(ServerRoute("GET", f"{address}{_WELL_KNOWN}", card) for address in addresses),
        *(ServerRoute("POST", address, rpc) for address in addresses),
    ]
