"""The tools of a worker: whatever goes wrong is an answer with a code, and the secret goes into files and never comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from interlock.capabilities import ModelReply, ToolCall
from interlock.capabilities.tools import ToolRequest, ToolResult
from interlock.testing import ScriptedModel
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.backend import ScopedBackend
from interlock_agents.gateway.workers.deep import WRITING, DeepWorker
from interlock_agents.gateway.workers.sealed import SealedScope
from interlock_agents.gateway.workers.tools import MARK, UpstreamTools, granted, holding, one_by_one, pass_the_gate
from tests.support.gateway import SECRET, call, calls, found, make_files

Answer = Callable[[ToolCallRequest], Any]


async def run(
    answer: Answer, args: dict[str, Any], *, tool: str = "write_file", secret: str = "", is_known: bool = True, most: int = 60_000
) -> tuple[ToolMessage, list[ToolResult], list[dict[str, Any]]]:
    """Take one call through the gate, with a tool that answers as it is told; return what the tool was given, too."""
    results: list[ToolResult] = []
    given_args: list[dict[str, Any]] = []
    tools = UpstreamTools(redact=lambda text: str(text).replace("sk-1234567890", "[redacted]"), max_characters=most)

    class Gate:
        async def run(self, request: ToolRequest) -> ToolResult:
            assert secret not in str(request) or not secret
            results.append(await tools.run(request))
            return results[-1]

    async def handler(request: ToolCallRequest) -> Any:
        given_args.append(dict(request.tool_call["args"]))
        return answer(request)

    tool_call: Any = {"name": tool, "args": args, "id": "1", "type": "tool_call"}
    request = ToolCallRequest(tool_call=tool_call, tool=object() if is_known else None, state={}, runtime=None)  # type: ignore[arg-type] - neither is looked at
    tokens = granted.set(Gate()), holding.set(secret), one_by_one.set(asyncio.Lock())
    try:
        message = await pass_the_gate(request, handler)
    finally:
        granted.reset(tokens[0])
        holding.reset(tokens[1])
        one_by_one.reset(tokens[2])
    assert isinstance(message, ToolMessage)
    return message, results, given_args


def says(text: str, status: Any = "success") -> Answer:
    return lambda _: ToolMessage(content=text, tool_call_id="1", status=status)


async def test_a_result_of_a_tool_is_returned():
    message, [result], _ = await run(says("Done."), {"file_path": "/a"})
    assert (message.content, message.status, message.tool_call_id, message.name) == ("Done.", "success", "1", "write_file")
    assert result == ToolResult(tool="write_file", result="Done.")


CODES = {
    "Error: path_denied: The path '/x' leads through a link.": "path_denied",
    "Error: input_too_large: The file is larger.": "input_too_large",
    "tool_input_invalid: What is asked cannot be done.": "tool_input_invalid",
    "Error: Path traversal not allowed: /../x": "path_denied",
    "Windows absolute paths are not supported: C:/x": "path_denied",
    "Error invoking tool 'ls' with kwargs {} with error: x": "tool_input_invalid",
    "Error: File '/x' not found": "tool_failed",
}


@pytest.mark.parametrize(("text", "expected"), CODES.items())
async def test_failures_have_an_error_code(text: str, expected: str):
    message, [result], _ = await run(says(text, "error"), {})
    assert (result.code, result.result, message.status) == (expected, None, "error")
    assert text in str(result.error)
    assert message.content == result.error


async def test_an_unknown_tool_is_denied():
    message, [result], given_args = await run(says("ran"), {}, tool="execute", is_known=False)
    assert (result.code, message.status, given_args) == ("tool_denied", "error", [])


async def test_an_exception_of_a_tool_is_reported_by_its_class():
    def breaks(_: ToolCallRequest) -> Any:
        raise RuntimeError("at /home/somebody")

    _, [result], _ = await run(breaks, {})
    assert (result.code, result.error) == ("tool_failed", "tool_failed: RuntimeError.")


async def test_a_result_that_is_not_text_is_an_error():
    answers: list[Any] = [Command(update={}), ToolMessage(content=[{"type": "image"}], tool_call_id="1")]
    for answer in answers:
        _, [result], _ = await run(lambda _, answer=answer: answer, {})
        assert result.code == "unsupported_media"


async def test_cancellation_is_not_a_result():
    def cancelled(_: ToolCallRequest) -> Any:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run(cancelled, {})


async def test_keys_are_redacted_before_a_result_is_cut():
    _, [result], _ = await run(says("a" * 90 + "sk-1234567890" + "b" * 200), {}, most=100)
    assert str(result.result).startswith("a" * 90 + "[redacted]\n[cut here: ")
    _, [result], _ = await run(says("x" * 100), {}, most=100)
    assert result.result == "x" * 100


# The secret


async def test_the_placeholder_is_replaced_in_written_text():
    _, _, [args] = await run(says("ok"), {"file_path": "/a", "content": f"key={MARK}; {MARK}"}, secret=SECRET)
    assert args == {"file_path": "/a", "content": f"key={SECRET}; {SECRET}"}
    _, _, [args] = await run(says("ok"), {"old_string": "a", "new_string": MARK}, tool="edit_file", secret=SECRET)
    assert args == {"old_string": "a", "new_string": SECRET}


NOT_FILLED: list[dict[str, Any]] = [
    {"file_path": f"/{MARK}"},
    {"path": MARK},
    {"pattern": MARK, "glob": MARK},
    {"old_string": MARK},
    {"content": [MARK]},
    {"content": {"x": MARK}},
    {"x": {"content": MARK}},
    {MARK: "x"},
]


@pytest.mark.parametrize("args", NOT_FILLED, ids=str)
async def test_the_placeholder_is_replaced_nowhere_else(args: dict[str, Any]):
    _, _, [given_args] = await run(says("ok"), args, secret=SECRET)
    assert given_args == args


async def test_without_a_secret_the_placeholder_stays():
    _, _, [args] = await run(says("ok"), {"content": MARK})
    assert args == {"content": MARK}


async def test_errors_about_arguments_do_not_quote_the_secret():
    def quotes(request: ToolCallRequest) -> ToolMessage:
        return ToolMessage(
            content=f"Error invoking tool 'x' with kwargs {str(request.tool_call['args'])[:30]}...", tool_call_id="1", status="error"
        )

    message, [result], _ = await run(quotes, {"content": MARK}, secret=SECRET)
    assert (result.code, found(SECRET, f"{message.content} {result}", part=4)) == ("tool_input_invalid", [])


async def test_the_secret_in_a_result_is_replaced_by_the_placeholder():
    message, [result], _ = await run(says(f"a {SECRET} b"), {}, secret=SECRET)
    assert (message.content, result.result) == (f"a {MARK} b", f"a {MARK} b")
    _, [result], _ = await run(says(f"Error: {SECRET}", "error"), {}, secret=SECRET)
    assert result.error == f"Error: {MARK}"


# A file that holds it


@pytest.fixture
def sealed(tmp_path: Path) -> SealedScope:
    return SealedScope(make_files(tmp_path) / "admin", writable=True)


@pytest.mark.parametrize("data", [SECRET, f"before {SECRET} after", f"a\n{SECRET}\n", SECRET * 3])
def test_a_file_with_the_secret_can_be_written_and_deleted_but_not_read(sealed: SealedScope, data: str):
    token = holding.set(SECRET)
    try:
        sealed.write("/x", data.encode())
        with pytest.raises(PathDenied, match="holds the secret") as refused:
            sealed.read("/x")
        assert found(SECRET, str(refused.value)) == []
        backend = ScopedBackend(sealed)
        assert "path_denied" in str(backend.read("/x").error)
        assert "path_denied" in str(backend.edit("/x", "a", "b").error)
        assert backend.grep("a", "/x").matches in (None, [])
        assert [one for one in backend.grep("a").matches or [] if one["path"] == "/x"] == []
        sealed.write("/x", b"another")
        assert sealed.read("/x") == b"another"
        sealed.delete("/x")
    finally:
        holding.reset(token)


@pytest.mark.parametrize("secret", ["one line\r\nanother line", "one line\nanother line", "one line\ranother line"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_other_newlines_do_not_make_the_secret_readable(sealed: SealedScope, secret: str, newline: str):
    token = holding.set(secret)
    try:
        sealed.write("/x", f"a{newline}one line{newline}another line{newline}".encode())
        with pytest.raises(PathDenied):
            sealed.read("/x")
    finally:
        holding.reset(token)


def test_without_a_secret_every_file_is_readable(sealed: SealedScope):
    sealed.write("/x", SECRET.encode())
    assert sealed.read("/x") == SECRET.encode()
    token = holding.set("another secret")
    assert sealed.read("/x") == SECRET.encode()
    holding.reset(token)


# A worker on its own, whatever its model writes


class Open:
    """A gate that lets everything through."""

    def __init__(self) -> None:
        self.tools = UpstreamTools(redact=lambda text: text)
        self.seen: list[ToolResult] = []

    async def run(self, request: ToolRequest) -> ToolResult:
        self.seen.append(await self.tools.run(request))
        return self.seen[-1]


PARTS = st.lists(st.sampled_from([MARK, "{{", "}}", "secret", "a", "\n", " ", "/", "..", "'", '"', "\\"]), max_size=5).map("".join)
EDITED = st.sampled_from(["/notes.md", "/a"])
CALLS = st.one_of(
    st.tuples(PARTS, PARTS).map(lambda two: call("write_file", file_path=f"/{two[0]}", content=two[1])),
    st.tuples(EDITED, PARTS, PARTS).map(lambda all_: call("edit_file", file_path=all_[0], old_string=all_[1], new_string=all_[2])),
    PARTS.map(lambda path: call("read_file", file_path=f"/{path}")),
    PARTS.map(lambda text: call("grep", pattern=text, output_mode="content")),
    PARTS.map(lambda text: call("glob", pattern=text)),
    PARTS.map(lambda path: call("ls", path=f"/{path}")),
    PARTS.map(lambda text: call("write_file", content=text)),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(CALLS, min_size=1, max_size=5), min_size=1, max_size=5))
def test_no_sequence_of_calls_discloses_the_secret(shared: tuple[DeepWorker, Path], batches: list[list[ToolCall]]):
    worker, folder = shared
    (folder / "notes.md").write_text("a notes a\n")
    gate = Open()
    model = ScriptedModel(*(ModelReply(calls=tuple(batch)) for batch in batches), "Done.")
    assert asyncio.run(worker.work("Go.", SECRET, model=model, files=gate)) == "Done."
    heard = [message.text for messages in model.messages for message in messages]
    assert found(SECRET, str([gate.seen, heard])) == []


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[DeepWorker, Path]:
    folder = make_files(tmp_path_factory.mktemp("worker")) / "admin"
    scope = SealedScope(folder, writable=True)
    return DeepWorker(lambda: ScopedBackend(scope), name="x", prompt="Work.", tools=WRITING), folder


async def test_a_worker_returns_the_last_reply_of_its_model(shared: tuple[DeepWorker, Path]):
    model = ScriptedModel(calls(call("ls", path="/")), "That is all.")
    assert await shared[0].work("List.", model=model, files=Open()) == "That is all."
    assert [message.role for message in model.messages[-1]] == ["system", "user", "assistant", "tool"]
