"""The Python client of the Model Context Protocol on a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult

from interlock.discovery import load_agent
from tests.server.serving import AGENTS, Running, serving
from tests.server.teller import agent as teller
from tests.support.parcels import sent


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=(*AGENTS, teller)) as running:
        yield running


def url(running: Running) -> str:
    return f"{running.process.address}/mcp"


@asynccontextmanager
async def connected(running: Running, key: str) -> AsyncGenerator[Client]:
    """A client with an API key, which can ask a person."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(url(running), http_client=http), elicitation_callback=Person()) as client,
    ):
        yield client


class Person:
    """Answers what is asked, one answer after the other; None declines."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        answer = self.answers.pop(0)
        return ElicitResult(action="decline") if answer is None else ElicitResult(action="accept", content={"answer": answer})


async def turns(running: Running, agent: str) -> list[dict[str, Any]]:
    return (await running.client().get("/api/turns", params={"agent": agent})).json()["turns"]


async def until_status(running: Running, status: str) -> None:
    """Wait until the only turn of parcels has a status."""
    async with asyncio.timeout(20):
        while True:
            if [turn["status"] for turn in await turns(running, "parcels")] == [status]:
                return
            await asyncio.sleep(0.01)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    return str(getattr(content, "text", ""))


async def test_agents_are_tools_without_a_handshake(running: Running):
    async with Client(url(running)) as client:
        assert client.protocol_version == "2026-07-28"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["parcels", "notes_admin", "notes_user", "sam", "teller"]
        result = await client.call_tool("sam", {"raw_input": "hello"})
    assert (result.is_error, "hello" in text_of(result)) == (False, True)
    (turn,) = await turns(running, "sam")
    assert result.structured_content == {"output": text_of(result), "session": turn["session"], "turn": turn["turn"]}


@pytest.mark.parametrize("name", ["sam", "desk", "analyst", "gateway", "puntini"])
async def test_the_schema_of_a_tool_is_that_of_its_entry_graph(tmp_path: Path, name: str):
    inputs: dict[str, Any] = {
        "sam": {"raw_input": "Good morning"},
        "desk": {"text": "Do you have headphones?"},
        "analyst": {"messages": [{"type": "human", "content": "What was the revenue in 2024?"}]},
        "gateway_admin": {"admin_input": "list the files"},
        "gateway_user": {"user_input": "list my documents"},
        "puntini": {"goal": "Add a person called Ada"},
    }
    async with serving(tmp_path, agents=[load_agent(name)]) as running, Client(url(running)) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [one for one in inputs if one.partition("_")[0] == name]
        for tool in tools:
            validator = jsonschema.Draft202012Validator(tool.input_schema)
            validator.check_schema(tool.input_schema)
            assert validator.is_valid(inputs[tool.name])
            assert not validator.is_valid({})
            assert not validator.is_valid(inputs[tool.name] | {"more": 1})
            result = await client.call_tool(tool.name, inputs[tool.name] | {"session": "s"})
            assert not result.is_error, text_of(result)
            jsonschema.Draft202012Validator(tool.output_schema or False).validate(result.structured_content)


async def test_a_session_continues_a_conversation(running: Running):
    async with Client(url(running)) as client:
        first = await client.call_tool("notes_user", {"text": "one"})
        named: Any = first.structured_content
        assert text_of(await client.call_tool("notes_user", {"text": "two", "session": named["session"]})) == '["one","two"]'


async def test_a_question_is_input_required_and_the_client_calls_again_with_the_answer(running: Running, tmp_path: Path):
    person = Person("red")
    async with Client(url(running), elicitation_callback=person) as client:
        assert text_of(await client.call_tool("parcels", {"text": "ask"})) == "answered red"
    assert person.asked == ["Which colour?"]
    assert sent(tmp_path) == ["ask: first", "ask: last"]


async def test_options_are_an_enum_and_a_person_who_declines_ends_the_question(tmp_path: Path):
    async with serving(tmp_path, agents=[load_agent("puntini")]) as running:
        person = Person(None)
        async with Client(url(running), elicitation_callback=person) as client:
            for goal in ("Add a task Design", "Add a person Design"):
                await client.call_tool("puntini", {"goal": goal, "session": "s"})
            goal = {"goal": "Set the priority of Design to 3", "session": "s"}
            asked = await client.session.call_tool("puntini", goal, allow_input_required=True)
            assert isinstance(asked, InputRequiredResult)
            request: Any = (asked.input_requests or {})["answer"]
            assert request.params.requested_schema["properties"]["answer"]["enum"] == ["Person Design", "Task Design"]
            declined = await client.call_tool("puntini", goal | {"session": "t"})
        assert not declined.is_error
        statuses = [(turn["session"], turn["status"]) for turn in await turns(running, "puntini")]
        assert ("t", "success") in statuses
        assert ("s", "waiting") in statuses


async def test_a_client_that_cannot_ask_gets_the_question_and_answers_by_the_next_call(running: Running):
    for mode in ("auto", "legacy"):
        async with Client(url(running), mode=mode) as client:
            asked = await client.call_tool("parcels", {"text": "ask", "session": mode})
            question: Any = asked.structured_content
            assert (text_of(asked), question["question"]["question"]) == ("Which colour?", "Which colour?")
            assert text_of(await client.call_tool("parcels", {"text": "red", "session": mode})) == "answered red"


async def test_the_answer_may_come_again_and_a_state_of_another_is_refused(running: Running, tmp_path: Path):
    async with Client(url(running), elicitation_callback=Person()) as client:

        async def call(tool: str, state: str | None, answer: str | None) -> Any:
            responses: Any = None if answer is None else {"answer": ElicitResult(action="accept", content={"answer": answer})}
            return await client.session.call_tool(
                tool, {"text": "ask"}, input_responses=responses, request_state=state, allow_input_required=True
            )

        asked = await call("parcels", None, None)
        state = asked.request_state
        again = await call("parcels", state, None)
        assert (again.result_type, again.request_state) == ("input_required", state)
        for _ in range(2):
            assert text_of(await call("parcels", state, "red")) == "answered red"
        assert sent(tmp_path) == ["ask: first", "ask: last"]
        turn = state.partition(".")[0]
        for tool, wrong in (("parcels", "x"), ("parcels", f"{turn}.1"), ("parcels", f"{turn}.9999"), ("notes_user", state)):
            with pytest.raises(MCPError) as caught:
                await call(tool, wrong, "red")
            assert caught.value.code == -32602


async def test_errors_are_results_with_their_codes_and_an_unknown_tool_is_an_error(running: Running):
    async with Client(url(running)) as client:
        codes: list[str] = []
        for tool, given in (("sam", {"raw": "x"}), ("sam", {"raw_input": " "}), ("sam", {"raw_input": "x", "session": "../x"})):
            result = await client.call_tool(tool, given)
            content: Any = result.structured_content
            assert result.is_error
            codes.append(content["error"]["code"])
        assert codes == ["input_schema", "input_empty", "input_schema"]
        failed = await client.call_tool("teller", {"text": "it fails"})
        assert (failed.is_error, text_of(failed)) == (True, "model_unavailable: The model went away.")
        with pytest.raises(MCPError) as caught:
            await client.call_tool("nothing", {})
        assert caught.value.code == -32602


async def test_text_is_reported_as_progress(running: Running):
    heard: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with Client(url(running)) as client:
        result = await client.call_tool("teller", {"text": "one two three"}, progress_callback=on_progress)
    assert text_of(result) == "one two three"
    assert "".join(message or "" for _, message in heard) == "one two three"
    assert [progress for progress, _ in heard] == list(range(1, len(heard) + 1))


async def test_a_call_whose_connection_is_closed_is_cancelled(running: Running):
    async with Client(url(running)) as client:
        calling = asyncio.create_task(client.call_tool("parcels", {"text": "wait 30"}))
        await until_status(running, "running")
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await until_status(running, "cancelled")


async def test_a_key_decides_which_tools_there_are(running: Running):
    key = await running.key("ada", roles=["user"], tenant="north")
    async with connected(running, key) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["parcels", "notes_user", "sam", "teller"]
        with pytest.raises(MCPError):
            await client.call_tool("notes_admin", {"text": "x"})
        asked = await client.session.call_tool("parcels", {"text": "ask"}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
    async with connected(running, await running.key("bob", roles=["user"], tenant="south")) as client:
        responses: Any = {"answer": ElicitResult(action="accept", content={"answer": "red"})}
        with pytest.raises(MCPError) as caught:
            await client.session.call_tool("parcels", {}, input_responses=responses, request_state=asked.request_state)
        assert caught.value.code == -32602
    refused = await running.client().post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert refused.status_code == 401


async def test_a_body_over_the_limit_is_refused_before_it_is_read(tmp_path: Path):
    async with serving(tmp_path, server_body_bytes=2000) as running:
        response = await running.client().post("/mcp", content=b"x" * 3000)
        assert (response.status_code, response.json()["code"]) == (413, "input_too_large")
