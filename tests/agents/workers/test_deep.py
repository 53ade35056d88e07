"""A worker is a DeepAgent with its file tools and nothing else; all that it does is seen, counted, and ends with the turn."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent  # pyright: ignore[reportUnknownVariableType] - generics without arguments
from deepagents.backends.protocol import ReadResult
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import ChatMessage
from langgraph.graph.state import CompiledStateGraph

from interlock import Interlock, Settings
from interlock.capabilities import Ids, Message, Model, ModelReply, Tool, ToolCall
from interlock.engine import ENGINES, EngineName
from interlock.errors import SettingsInvalid
from interlock.runtime.events import Event
from interlock.runtime.targets import Composed
from interlock.testing import CountingIds, ScriptedModel
from interlock_agents.gateway.file_tools import READING, FileTools
from interlock_agents.gateway.files.backend import ScopedBackend
from interlock_agents.gateway.files.scope import Scope
from interlock_agents.gateway.roles import DocsWorker
from interlock_agents.gateway.workers import harness
from interlock_agents.gateway.workers.chat import GatedChatModel, asking
from interlock_agents.gateway.workers.deep import WRITING, DeepWorker
from interlock_agents.gateway.workers.tools import UpstreamTools
from tests.support.gateway import (
    ADMIN_CANARY,
    BRIDGE,
    DOCS_CANARY,
    READS,
    SECRET,
    WRITES,
    Obedient,
    Post,
    app,
    call,
    calls,
    code,
    make_files,
    names,
    order,
    tool_results,
    vault,
)


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Generator[Post]:
    made = Post(tmp_path_factory.mktemp("gateway"))
    yield made
    made.close()


def read(path: str = "/welcome.md") -> ModelReply:
    return calls(call("read_file", file_path=path))


# What it is made of


def tool_names(built: Any) -> set[str]:
    return {*built.nodes["tools"].bound.tools_by_name}


def test_a_worker_has_the_file_tools_only(tmp_path: Path):
    backend = ScopedBackend(Scope(make_files(tmp_path) / "docs", writable=True))
    for tools, expected in ((READING, READS), (WRITING, WRITES)):
        built = harness.build(backend, name="x", prompt="Work.", tools=tools)
        assert isinstance(built, CompiledStateGraph)
        assert tool_names(built) == {*expected}
        assert built.checkpointer is False
    assert harness.create_deep_agent is create_deep_agent
    assert {*WRITES} - {*READS} == {"write_file", "edit_file", "delete"}


def test_a_worker_for_replay_needs_no_files():
    built = harness.build(None, name="x", prompt="Work.", tools=READING)
    assert tool_names(built) == {*READS}


@pytest.mark.parametrize("writes", [False, True])
async def test_a_model_is_offered_the_tools_of_its_side(engine: EngineName, tmp_path: Path, writes: bool):  # noqa: FBT001 - a parameter
    make_files(tmp_path)
    model = Obedient()
    async with app(engine, tmp_path, grants={Model: model}, **vault(tmp_path), gateway_customer_writes=writes) as running:
        await running.run("gateway", "Hello.", role="user")
        await running.run("gateway", "LABEL respond_admin", role="admin")
        await running.run("gateway", "LABEL route_bridge\nthe docs", role="admin")
    customers = {*(WRITES if writes else READS)}
    assert [{*tools} for _, tools in model.asked] == [customers, set(), {*WRITES}, set(), customers]
    prompts = [messages[0].text for messages, tools in model.asked if tools]
    assert [prompt.startswith(f"You {word}") for prompt, word in zip(prompts, ("answer", "work", "answer"), strict=True)] == [True] * 3
    assert "write_file" not in prompts[0] or writes
    assert "`execute`" not in prompts[1]


async def test_a_worker_is_built_once_for_many_turns(engine: EngineName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_files(tmp_path)
    built: list[str] = []

    def counting(backend: Any, **more: Any) -> Any:
        built.append(more["name"])
        return original(backend, **more)

    original = harness.build
    monkeypatch.setattr(harness, "build", counting)
    async with app(engine, tmp_path, grants={Model: Obedient()}, **vault(tmp_path)) as running:
        assert built == []
        await running.run("gateway", "", role="user")
        await running.run("gateway", "", role="admin")
        assert built == []  # nothing is built for nothing
        await asyncio.gather(*(running.run("gateway", "Hello.", role="user") for _ in range(8)))
        assert built == ["gateway.docs"]
        for text in ("LABEL respond_admin", "LABEL route_bridge docs", "the docs", "Who?"):
            await asyncio.gather(*(running.run("gateway", text, role="admin") for _ in range(3)))
    assert built == ["gateway.docs", "gateway.admin"]


LOADED = """
import json, sys
from interlock.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["interlock", *arguments]
    try:
        main()
    except SystemExit as done:
        assert done.code in (0, None), done.code
import interlock
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_deepagents_is_imported_at_first_use(tmp_path: Path):
    commands = [["show", "gateway"], ["show", "gateway", "--json"], ["agents"], ["run", "sam", "hello"]]
    environment = {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(commands)], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    modules = {*json.loads(ran.stdout.splitlines()[-1])}
    assert "interlock" in modules
    assert ran.stderr == ""
    assert modules & {"deepagents", "langgraph", "langchain", "langchain_core", "langsmith"} == set()


# What is seen of it


@pytest.mark.parametrize(
    ("role", "text", "node"),
    [("user", "Hello.", "customer"), ("admin", "Hello.", "supervisor"), ("admin", "The docs.", "customer_from_bridge/customer")],
)
async def test_events_of_a_worker_belong_to_its_node(engine: EngineName, post: Post, role: str, text: str, node: str):
    label = [] if role == "user" else ["route_bridge"]
    two = calls(call("ls", path="/"), call("read_file", file_path="/notes.md" if node == "supervisor" else "/welcome.md"))
    result, events = await post.take(engine, text, *label, two, "Done.", role=role)
    assert (result.status, result.output) == ("success", "Done.")
    under = [event for event in events if event["metadata"].get("langgraph_node") == node]
    kinds = [event["event"] for event in under]
    model = ["on_chat_model_start", "on_chat_model_end"]
    label_kinds = model if node == "supervisor" else []
    assert kinds[: len(label_kinds) + 3] == ["on_chain_start", *label_kinds, *model]
    assert kinds[-3:] == [*model, "on_chain_end"]
    assert kinds[len(label_kinds) + 3 : -3] == ["on_tool_start", "on_tool_end"] * 2  # one after the other, in the order of the reply
    assert names(under, "on_tool_start") == ["ls", "read_file"]
    starts = {event["name"]: event["data"]["input"] for event in under if event["event"] == "on_tool_start"}
    assert starts == {one.name: one.arguments for one in two.calls}
    ran = under[0]["run_id"]
    assert all(event["parent_ids"][-1] == ran for event in under[1:-1])
    assert len({event["run_id"] for event in events}) * 2 == len(events)
    assert {event["event"].rpartition("_")[0] for event in events} == {"on_chain", "on_chat_model", "on_tool"}
    if node.startswith("customer_from_bridge/"):
        chain = [event["run_id"] for event in events if event["event"] == "on_chain_start"]
        assert under[0]["parent_ids"] == [chain[0], chain[3], chain[4]]


async def test_both_engines_emit_the_same_events(tmp_path: Path):
    make_files(tmp_path)
    told: list[list[Event]] = []
    replies = ("route_bridge", read(), read("/../admin/x"), "Done.")
    for engine in ENGINES:
        events: list[Event] = []
        given: Any = {"gateway_path": tmp_path / "files"}
        running = Interlock(
            Settings(engine=engine, data_dir=tmp_path, **given), grants={Model: ScriptedModel(*replies), Ids: CountingIds("same")}
        )
        await running.run("gateway", "The docs.", role="admin", on_event=events.append)
        await running.close()
        told.append(events)
    assert told[0] == told[1]


async def test_langsmith_and_langchain_callbacks_get_no_events(engine: EngineName, post: Post, monkeypatch: pytest.MonkeyPatch):
    from langchain_core.tracers import langchain  # noqa: PLC0415 - where traces go from

    told: list[str] = []

    def made(*_: Any, **__: Any) -> None:
        told.append("made")

    class Listening(AsyncCallbackHandler):
        run_inline = True

        async def on_chat_model_start(self, *_: Any, **__: Any) -> None:
            told.append("model")

        async def on_tool_start(self, *_: Any, **__: Any) -> None:
            told.append("tool")

    monkeypatch.setattr(langchain.LangChainTracer, "__init__", made)
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")
    result, _ = await post.take(engine, "Hello.", read(), "Done.")
    assert (result.output, told) == ("Done.", [])
    graph: Any = post.apps["langgraph"].langgraph("gateway.user")
    post.switch(read(), "Done.")
    monkeypatch.delenv("LANGSMITH_TRACING")
    monkeypatch.delenv("LANGCHAIN_TRACING_V2")
    final = await graph.ainvoke({"user_input": "Hello."}, {"callbacks": [Listening()]})
    assert final["response"] == "Done."
    assert told.count("model") <= 2  # at most what the node itself tells: nothing of the agent inside
    assert told.count("tool") <= 1


# How it ends


async def test_an_endless_worker_is_stopped_by_the_budget(engine: EngineName, tmp_path: Path):
    make_files(tmp_path)
    async with app(engine, tmp_path, *[read() for _ in range(50)], gateway_path=tmp_path / "files", max_model_calls=7) as running:
        events: list[Event] = []
        result = await running.run("gateway", "Hello.", role="user", on_event=events.append)
    assert (code(result), result.status, result.output) == ("budget_exceeded", "error", None)
    assert (len(names(events, "on_chat_model_end")), len(names(events, "on_tool_end"))) == (7, 7)
    assert result.error is not None
    assert result.error.node == "customer"


async def test_without_a_budget_the_steps_of_a_worker_are_limited(engine: EngineName, tmp_path: Path):
    make_files(tmp_path)
    none: dict[str, Any] = {"max_model_calls": None, "max_tokens": None}
    replies = [calls(call("nothing")) for _ in range(300)]
    async with app(engine, tmp_path, *replies, gateway_path=tmp_path / "files", **none) as running:
        result = await running.run("gateway", "Hello.", role="user")
    assert code(result) == "budget_exceeded"


class Slow(ScriptedModel):
    """Takes a little while, every time."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        await asyncio.sleep(0.02)
        return read()


async def test_an_endless_worker_is_stopped_by_the_time_limit(engine: EngineName, tmp_path: Path):
    make_files(tmp_path)
    limits: dict[str, Any] = {"max_model_calls": None, "max_tokens": None, "max_turn_seconds": 1.0}
    async with app(engine, tmp_path, grants={Model: Slow()}, gateway_path=tmp_path / "files", **limits) as running:
        await running.run("gateway", "", role="user")
        result = await asyncio.wait_for(running.run("gateway", "Hello.", role="user"), 60)
    assert code(result) == "budget_exceeded"


class Hanging(ScopedBackend):
    """Begins to read, and never ends."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.began = asyncio.Event()
        self.ended = 0

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
        raise AssertionError


async def settle(before: set[asyncio.Task[Any]]) -> None:
    """Wait for what upstream has in threads, which cannot be cancelled: it ends by itself, or this fails."""
    while left := asyncio.all_tasks() - before:
        done, _ = await asyncio.wait(left, timeout=10)
        assert done, left


def hanging(engine: EngineName, folder: Path, *replies: Any, **settings: Any) -> tuple[Interlock, Hanging]:
    backend = Hanging(Scope(make_files(folder) / "docs", writable=False))
    worker = DeepWorker(lambda: backend, name="slow", prompt="Work.", tools=READING)
    parts = {Model: ScriptedModel(*replies), FileTools: UpstreamTools(redact=lambda text: text)}
    return app(engine, folder, grants={DocsWorker: Composed(worker, parts=parts)}, **settings), backend


async def test_a_hanging_tool_is_stopped_by_the_time_limit_of_a_call(engine: EngineName, tmp_path: Path):
    running, backend = hanging(
        engine, tmp_path, calls(call("read_file", file_path="/a"), call("read_file", file_path="/b")), "x", max_call_seconds=0.2
    )
    before = asyncio.all_tasks()
    result = await asyncio.wait_for(running.run("gateway", "Hello.", role="user"), 60)
    assert (code(result), result.status) == ("capability_timeout", "error")
    await settle(before)
    assert backend.ended in (1, 2)


async def test_a_cancelled_turn_leaves_nothing_running(engine: EngineName, tmp_path: Path):
    running, backend = hanging(engine, tmp_path, calls(call("read_file", file_path="/a"), call("read_file", file_path="/b")), "x")
    before = asyncio.all_tasks()
    events: list[Event] = []
    task = asyncio.create_task(running.run("gateway", "Hello.", role="user", on_event=events.append))
    await backend.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)
    await settle(before)
    assert backend.ended == 1
    assert events[-1]["data"]["error"]["code"] == "cancelled"
    assert asking.get(None) is None
    gc.collect()


async def test_closing_a_stream_stops_the_worker(engine: EngineName, tmp_path: Path):
    running, backend = hanging(engine, tmp_path, read(), "x")
    before = asyncio.all_tasks()
    async for event in (stream := running.stream("gateway", "Hello.", role="user")):
        if event["event"] == "on_tool_start":
            await backend.began.wait()
            break
    await stream.aclose()
    await settle(before)
    assert backend.ended == 1


# What it is given and what it gets


async def test_a_file_over_the_limit_is_an_error_of_the_tool(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    with (base / "docs" / "huge.md").open("wb") as file:
        file.truncate(5_000_000_000)
    wanted = calls(call("read_file", file_path="/huge.md"), call("grep", pattern="Refunds"), call("read_file", file_path="/welcome.md"))
    async with app(engine, tmp_path, wanted, "Done.", gateway_path=base) as running:
        events: list[Event] = []
        result = await running.run("gateway", "Hello.", role="user", on_event=events.append)
    assert result.output == "Done."
    by_tool = {(one["tool"], one["code"]) for one in tool_results(events)}
    assert by_tool == {("read_file", "input_too_large"), ("grep", None), ("read_file", None)}


async def test_a_long_result_of_a_tool_is_cut_and_marked(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    (base / "docs" / "long.md").write_text("\n".join(["x" * 200] * 1900))
    async with app(engine, tmp_path, read("/long.md"), "Done.", gateway_path=base) as running:
        events: list[Event] = []
        await running.run("gateway", "Hello.", role="user", on_event=events.append)
    [result] = tool_results(events)
    assert len(result["result"]) < 60_200
    assert "[cut here: " in result["result"] or len(result["result"]) < 60_000


async def test_calls_with_repeated_or_missing_ids_are_answered(engine: EngineName, post: Post):
    for ids in (("", ""), ("same", "same")):
        two = tuple(ToolCall(id=one, name="read_file", arguments={"file_path": "/welcome.md"}) for one in ids)
        result, events = await post.take(engine, "Hello.", ModelReply(calls=two), "Done.")
        assert (code(result), result.output, len(tool_results(events))) == (None, "Done.", 2)


async def test_missing_files_end_the_turn_only(engine: EngineName, tmp_path: Path):
    for folder in (tmp_path / "none", make_files(tmp_path).parent):
        async with app(engine, tmp_path, "respond_admin", "x", gateway_path=folder) as running:
            result = await running.run("gateway", "Hello.", role="admin")
            assert code(result) == SettingsInvalid.code
            assert str(tmp_path) not in str(result.to_json())


def test_the_chat_model_fails_outside_a_turn():
    model = GatedChatModel()
    with pytest.raises(NotImplementedError):
        model.invoke("Hello.")
    with pytest.raises(LookupError):
        asyncio.run(model.ainvoke("Hello."))


async def test_an_unknown_message_type_is_an_error():
    token = asking.set(ScriptedModel("x"))
    try:
        with pytest.raises(TypeError, match="ChatMessage"):
            await GatedChatModel().ainvoke([ChatMessage(role="odd", content="x")])
    finally:
        asking.reset(token)


# Many at once


async def test_concurrent_turns_of_both_sides_do_not_mix(engine: EngineName, tmp_path: Path):
    make_files(tmp_path)
    model = Obedient()
    texts: dict[tuple[str, str], int] = {}
    async with app(engine, tmp_path, grants={Model: model}, **vault(tmp_path)) as running:

        async def one(role: str, text: str, number: int) -> tuple[Any, list[Event]]:
            events: list[Event] = []
            texts[role, text] = number
            return await running.run("gateway", text, role=role, on_event=events.append), events

        def admin(number: int) -> str:
            written = order("write_file", file_path=f"/new-{number}.txt", content=f"{number} {{{{secret}}}}")
            return f"LABEL respond_admin\n{written}\n{order('read_file', file_path='/notes.md')}\nSAY admin-{number}"

        def user(number: int, label: str = "") -> str:
            wanted = order("read_file", file_path="/notes.md"), order("read_file", file_path="/welcome.md")
            written = order("write_file", file_path="/x.txt", content="{{secret}}")
            return "\n".join([label, *wanted, written, f"SAY user-{number}"])

        turns = [
            *(one("admin", admin(number), number) for number in range(6)),
            *(one("user", user(number), number) for number in range(6, 12)),
            *(one("admin", user(number, "LABEL route_bridge\ndocs"), number) for number in range(12, 18)),
        ]
        done = await asyncio.gather(*turns)
    for number, (result, events) in enumerate(done):
        assert result.status == "success"
        told = json.dumps([events, result.to_json()], default=str)
        assert SECRET not in told
        others = [
            other
            for other in range(18)
            if other != number and f"-{other}\\n" in told + "\\n" and f"user-{other}" in result.output.split("\n")
        ]
        assert others == []
        assert result.output.endswith(f"-{number}")
        if number < 6:
            assert result.path == ("supervisor",)
            assert ADMIN_CANARY in told
            assert DOCS_CANARY not in told
        else:
            assert result.path == (("customer",) if number < 12 else BRIDGE)
            assert ADMIN_CANARY not in told
            assert DOCS_CANARY in told
            assert [one["code"] for one in tool_results(events) if one["tool"] == "write_file"] == ["tool_denied"]
    written = {path.name: path.read_text() for path in sorted((tmp_path / "files" / "admin").glob("new-*"))}
    assert written == {f"new-{number}.txt": f"{number} {SECRET}" for number in range(6)}
    assert not (tmp_path / "files" / "docs" / "x.txt").exists()
