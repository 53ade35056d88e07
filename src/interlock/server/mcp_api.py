"""The Model Context Protocol, at /mcp: agents are tools. Needs the extra `interlock[mcp]`.

Revision 2026-07-28 is stateless: each request stands alone, and `server/discover` says what there is. A turn that asks a person is a
result `input_required`: the client asks, and calls again with the answer. A client that cannot ask gets the question as the result,
and answers by calling again with the same session. Earlier revisions are served too, without state. The `mcp` package has the
protocol; this module has the tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server as ToolServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import InputSchema, InterlockError, TurnUnknown
from interlock.runtime.turns import StoredTurn
from interlock.server.conversation import Ended, Message, follow_reply, last_reply, questions_of, say
from interlock.server.mcp_tools import OUTPUT_SCHEMA, AgentTool, agent_tools
from interlock.server.problems import Problem, problem_of
from interlock.server.request_errors import RequestError
from interlock.server.routing import Json, ServerRoute, principal_of, server_of

if TYPE_CHECKING:
    from starlette.types import Message as ASGIMessage
    from starlette.types import Receive, Scope, Send

    from interlock.server.app import Server

__all__ = ["routes"]

_ANSWER = "answer"
Context: TypeAlias = ServerRequestContext[Any, Any]


def routes(server: Server) -> list[ServerRoute]:
    """Return the route of the protocol."""
    tools = agent_tools(server.agents)
    instructions = "Each tool is an agent. A result names its session; pass it to continue the conversation."

    async def list_tools(context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        principal = principal_of(_request(context))
        return ListToolsResult(tools=[_described(tool) for tool in tools.values() if principal.has(tool.role)])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        tool = tools.get(params.name)
        if tool is None or not principal_of(_request(context)).has(tool.role):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await _Call(context, tool, params).run()

    application = ToolServer(
        "interlock", version=version("interlock"), instructions=instructions, on_list_tools=list_tools, on_call_tool=call_tool
    )

    async def handle(request: Request) -> Response:
        # Read here, where a body over the limit is refused like on every route.
        return _Exchange(application, request, await request.body())

    return [ServerRoute("POST", "/mcp", handle)]


def _request(context: Context) -> Request:
    return cast("Request", context.request)


def _described(tool: AgentTool) -> Tool:
    role = "" if tool.role is None else f" (as {tool.role})"
    return Tool(
        name=tool.name,
        title=tool.name,
        description=f"{tool.agent.summary}{role}",
        input_schema=tool.input_schema,
        output_schema=dict(OUTPUT_SCHEMA),
    )


class _Exchange(Response):
    """One request and its answer. Nothing is kept for the next one."""

    def __init__(self, application: ToolServer[Any], request: Request, content: bytes) -> None:
        super().__init__()
        self._application = application
        self._request = request
        self._content: bytes | None = content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Let the protocol answer."""
        limit = server_of(self._request).settings.server_body_bytes
        sessions = StreamableHTTPSessionManager(self._application, stateless=True, max_request_body_size=limit)
        refused: ASGIMessage | None = None

        async def typed(message: ASGIMessage) -> None:
            """Send a message; of a refusal, only what says nothing of the code behind it."""
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                refused = message
            elif refused is not None:
                await _refusal(refused, message.get("body", b""))(scope, self._receive, send)
            else:
                await send(message)

        async with sessions.run():
            await sessions.handle_request(scope, self._receive, typed)

    async def _receive(self) -> ASGIMessage:
        """Return the body that was read, and then what comes after it: that the client leaves."""
        if self._content is None:
            return await self._request.receive()
        content, self._content = self._content, None
        return {"type": "http.request", "body": content, "more_body": False}


def _refusal(start: ASGIMessage, body: bytes) -> Response:
    """Return a refusal of the `mcp` package: a JSON-RPC error without what a validator said in it, or the problem that plain text names."""
    with suppress(ValueError, KeyError, TypeError):
        content = from_json(body)
        if content["error"]["message"].startswith("Validation error"):
            content["error"]["message"] = "The request does not have the form of a JSON-RPC message."
        kept = {name: value for name, value in Headers(raw=start["headers"]).items() if name not in {"content-length", "content-type"}}
        return Json(content, start["status"], kept)
    return Problem(RequestError("The request is not one of this protocol: its body is JSON, of the type 'application/json'."))


class _Call:
    """A call of a tool: the turn that it starts, or the answer that it brings."""

    def __init__(self, context: Context, tool: AgentTool, params: CallToolRequestParams) -> None:
        self._context = context
        self._tool = tool
        self._params = params
        request = _request(context)
        self._server, self._principal = server_of(request), principal_of(request)

    async def run(self) -> CallToolResult | InputRequiredResult:
        """Return the result of the turn, or its question."""
        message: Message | None = None
        try:
            message = await (self._start() if self._params.request_state is None else self._continue(self._params.request_state))
            return await self._follow(message)
        except InterlockError as error:
            return _failed(error, problem_of(error)["detail"], message)
        except asyncio.CancelledError:
            # A client cancels a call by closing its connection.
            if message is not None and not self._server.service.is_draining:
                with suppress(InterlockError):
                    await asyncio.shield(self._server.service.cancel(self._principal, message.turn.turn))
            raise

    async def _start(self) -> Message:
        given, session = self._tool.split(self._params.arguments or {})
        if session is not None and not isinstance(session, str):
            raise InputSchema("The session is text.")
        key = _request(self._context).headers.get("idempotency-key")
        return await say(self._server, self._principal, self._tool.agent, given, session=session, role=self._tool.role, key=key)

    async def _continue(self, state: str) -> Message:
        """Answer the question that a client was asked, or ask it again where the client brings no answer."""
        turn, after, is_open = await self._question(state)
        if is_open:
            answer = self._answer()
            if answer is None:
                return await last_reply(self._server, turn)
            await self._server.service.answer(self._principal, turn.turn, answer)
        return Message(turn=turn, after=after)

    async def _question(self, state: str) -> tuple[StoredTurn, int, bool]:
        """Return the turn and the event of a question by the state that a client sends back, and whether it waits for an answer."""
        name, _, number = state.rpartition(".")
        with suppress(TurnUnknown, InputSchema):
            turn = await self._server.service.get(self._principal, name)
            if (turn.agent, turn.role) == (self._tool.agent.name, self._tool.role):
                asked = await questions_of(self._server, turn)
                if number in map(str, asked):
                    return turn, int(number), turn.status == "waiting" and number == str(asked[-1])
        raise MCPError(INVALID_PARAMS, "The state of the request is not one of this tool's.")

    def _answer(self) -> str | None:
        """Return the person's answer; the agent's word for it where the person gives none."""
        given = (self._params.input_responses or {}).get(_ANSWER)
        if not isinstance(given, ElicitResult):
            return None
        if given.action != "accept":
            return self._tool.agent.abort or given.action
        answer = (given.content or {}).get(_ANSWER)
        return answer if isinstance(answer, str) and answer.strip() else None

    async def _follow(self, message: Message) -> CallToolResult | InputRequiredResult:
        """Wait for the reply, and report its text as progress."""
        progress = 0
        async with aclosing(follow_reply(self._server, message)) as following:
            async for arrived in following:
                if isinstance(arrived, Ended):
                    return self._result(message, arrived)
                for text in arrived:
                    progress += 1
                    await self._context.session.report_progress(progress, message=text)
        raise AssertionError  # A reply has an end.

    def _result(self, message: Message, ended: Ended) -> CallToolResult | InputRequiredResult:
        if ended.error is not None:
            return _failed(ended.error, ended.error.message, message)
        if ended.asks is not None and not ended.asks.get("to") and self._can_ask():
            state = f"{ended.turn}.{ended.number}"
            return InputRequiredResult(input_requests={_ANSWER: _elicitation(ended.asks)}, request_state=state)
        content: dict[str, Any] = {"output": ended.text, "session": message.turn.session, "turn": message.turn.turn}
        if ended.asks is not None:
            content["question"] = dict(ended.asks)
        return CallToolResult(content=[TextContent(text=ended.text)], structured_content=content)

    def _can_ask(self) -> bool:
        """Return whether the client can show a form to a person."""
        declared = self._context.session.client_capabilities
        forms = None if declared is None else declared.elicitation
        return (
            self._context.protocol_version in MODERN_PROTOCOL_VERSIONS
            and forms is not None
            and (forms.form is not None or forms.url is None)
        )


def _elicitation(asked: Mapping[str, Any]) -> ElicitRequest:
    answer: dict[str, Any] = {"type": "string", "title": "Answer", "minLength": 1}
    if asked["options"]:
        answer = {"type": "string", "title": "Answer", "enum": list(asked["options"])}
        if asked["recommended"] in asked["options"]:
            answer["default"] = asked["recommended"]
    schema = {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}
    return ElicitRequest(params=ElicitRequestFormParams(message=asked["question"], requested_schema=schema))


def _failed(error: InterlockError, text: str, message: Message | None) -> CallToolResult:
    """Return an error as a result, which the model that called can read."""
    turn = None if message is None else message.turn
    content = {
        "session": "" if turn is None else turn.session,
        "turn": None if turn is None else turn.turn,
        "error": {"code": error.code, "message": text},
    }
    return CallToolResult(content=[TextContent(text=f"{error.code}: {text}")], structured_content=content, is_error=True)
