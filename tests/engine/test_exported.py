"""A graph that LangGraph drives, as callback handlers see it; and turns, which they do not see."""

from __future__ import annotations

import asyncio
import sys
from contextvars import ContextVar
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Annotated, Any, ClassVar

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler, CallbackManager
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tracers import context as tracers
from langchain_core.tracers.context import collect_runs, register_configure_hook
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, Secret, Settings, node
from interlock.engine import EngineName
from interlock.engine.ambient import alone, manager_hook
from interlock.engine.callback_redaction import redact_manager
from interlock.errors import NodeFailed

SECRET = "canary-of-a-secret-field"  # noqa: S105 - it is looked for
GIVEN = {"question": "Who?", "token": SECRET}
HERE: RunnableConfig = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    question: str
    token: Annotated[str, Secret]
    answer: str


class Told(Outcome):
    answer: str


class Renewed(Outcome):
    token: str


async def tell(question: str, token: str) -> Told:
    return Told(answer=f"{question} {token}")


async def renew(question: str) -> Renewed:
    return Renewed(token=f"{SECRET}-renewed")


async def fail(token: str) -> Told:
    raise ValueError(token)


telling = Graph("telling", state=State, entry=tell, nodes=[node(tell, goes={Told: renew}), node(renew, goes={Renewed: END})])
failing = Graph("failing", state=State, entry=fail, nodes=[node(fail, goes={Told: END})])


class Listener(BaseCallbackHandler):
    """A handler that is called in the thread of the run."""

    run_inline = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.heard.append(("start", inputs))

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.heard.append(("end", outputs))

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        self.heard.append(("error", str(error)))


class AsyncListener(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    async def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.heard.append(("start", inputs))

    async def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.heard.append(("end", outputs))


def exported(graph: Graph = telling, **options: Any) -> Any:
    return Interlock(Settings()).langgraph(graph, **options)


@pytest.mark.parametrize("kind", [Listener, AsyncListener])
async def test_a_handler_sees_the_run_without_its_secrets_and_the_caller_all_of_it(kind: Any):
    listener = kind()
    final = await exported().ainvoke(GIVEN, {"callbacks": [listener]})
    assert final == {"question": "Who?", "token": f"{SECRET}-renewed", "answer": f"Who? {SECRET}"}
    assert SECRET not in repr(listener.heard)
    assert listener.heard[:2] == [("start", {"question": "Who?", "token": "[redacted]"})] * 2
    assert listener.heard[-1] == ("end", {"question": "Who?", "token": "[redacted]", "answer": "Who? [redacted]"})


async def test_events_have_no_secrets_and_what_the_graph_gives_stays_what_it_is():
    events = [event async for event in exported().astream_events(GIVEN, version="v2")]
    assert SECRET not in repr(events)
    assert {event["event"] for event in events} == {"on_chain_start", "on_chain_stream", "on_chain_end"}
    whole = [event["data"]["chunk"] for event in events if event["event"] == "on_chain_stream" and not event["parent_ids"]]
    assert whole == [{"tell": {"answer": "Who? [redacted]"}}, {"renew": {"token": "[redacted]"}}]
    listener = Listener()
    tapped = exported(checkpointer=InMemorySaver())
    assert [event async for event in tapped.astream_events(GIVEN, {**HERE, "callbacks": [listener]}, version="v2")]
    assert (await tapped.aget_state(HERE)).values["answer"] == f"Who? {SECRET}"
    assert SECRET not in repr(listener.heard)


async def test_stopping_to_read_events_ends_the_run():
    events = exported().astream_events(GIVEN, version="v2")
    assert (await anext(events))["event"] == "on_chain_start"
    await events.aclose()


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
async def test_the_newest_kind_of_events_is_the_state_itself():
    run = await exported().astream_events(GIVEN, version="v3")
    assert (await run.output())["answer"] == f"Who? {SECRET}"


async def test_an_error_is_heard_without_its_secrets():
    listener = Listener()
    with pytest.raises(NodeFailed):
        await exported(failing).ainvoke(GIVEN, {"callbacks": [listener]})
    errors = [heard for kind, heard in listener.heard if kind == "error"]
    assert len(errors) == 2
    assert SECRET not in repr(errors)


async def test_a_run_from_code_that_is_not_async_shows_no_secrets_before_it_is_refused():
    listener = Listener()
    with pytest.raises(TypeError):
        exported().invoke(GIVEN, {"callbacks": [listener]})
    assert listener.heard[0] == ("start", {"question": "Who?", "token": "[redacted]"})
    assert SECRET not in repr(listener.heard)
    chunks = exported().stream(GIVEN, stream_mode="values")
    assert next(chunks) == GIVEN
    with pytest.raises(TypeError):
        next(chunks)
    assert list(exported().stream(GIVEN, interrupt_before="*", stream_mode="values")) == [GIVEN]


async def test_a_state_that_is_changed_from_outside_is_not_shown():
    graph = exported(checkpointer=InMemorySaver())
    listener = Listener()
    await graph.ainvoke(GIVEN, HERE)
    for_handlers: RunnableConfig = {**HERE, "callbacks": [listener]}
    await graph.aupdate_state(for_handlers, {"token": f"{SECRET}-changed"}, as_node="tell")
    graph.update_state(for_handlers, {"token": f"{SECRET}-again"}, as_node="tell")
    assert (await graph.aget_state(HERE)).values["token"] == f"{SECRET}-again"
    assert SECRET not in repr(listener.heard)


async def test_what_is_set_for_a_run_is_not_set_for_its_reader():
    class Plain(TypedDict):
        text: str

    async def say(state: Plain) -> Plain:
        return state

    builder = StateGraph(Plain)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    listener = Listener()
    async for _ in exported().astream(GIVEN):
        await builder.compile().ainvoke({"text": SECRET}, {"callbacks": [listener]})
    assert SECRET in repr(listener.heard)


async def test_a_graph_inside_a_graph_has_its_secrets_taken_out_too():
    class Parent(TypedDict, total=False):
        question: str
        text: str

    listener = Listener()
    inside = exported()

    async def call(state: Parent) -> Parent:
        return {"text": str(len((await inside.ainvoke(GIVEN))["answer"]))}

    builder = StateGraph(Parent)
    builder.add_node("call", call)
    builder.add_edge(START, "call")
    assert await builder.compile().ainvoke({"question": "?"}, {"callbacks": [listener]})
    assert [heard for heard in listener.heard if heard == ("start", {"question": "Who?", "token": "[redacted]"})]
    assert SECRET not in repr(listener.heard)


def test_a_handler_that_two_graphs_redact_for_has_the_secrets_of_both_taken_out():
    class Knows:
        def __init__(self, secret: str) -> None:
            self.secret = secret

        def redact(self, value: Any) -> Any:
            return tuple(str(part).replace(self.secret, "-") for part in value)

    listener = Listener()
    manager = CallbackManager(handlers=[listener], inheritable_handlers=[listener])
    outer, inner = Knows("one"), Knows("two")
    for redaction in (outer, inner, inner):
        redact_manager(redaction, manager)
    assert manager.handlers[0] is manager.inheritable_handlers[0]
    assert isinstance(manager.handlers[0], Listener)
    manager.handlers[0].on_chain_start({}, "one two three")
    assert listener.heard == [("start", "- - three")]


class Hooked(Listener):
    made: ClassVar[list[Any]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


@pytest.fixture
def hook():
    """Register a handler for the whole process, and take it back."""
    variable: ContextVar[Listener | None] = ContextVar("listener", default=None)
    before = list(tracers._configure_hooks)  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - there is no way to take one back
    register_configure_hook(variable, inheritable=True)
    yield variable
    tracers._configure_hooks[:] = before  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - likewise


async def test_a_turn_has_no_handlers_but_those_that_an_adapter_passes(
    engine: EngineName, hook: ContextVar[Any], capsys: pytest.CaptureFixture[str]
):
    passed, everywhere = Listener(), Listener()
    hook.set(everywhere)

    async def inside(question: str, token: str) -> Told:
        await RunnableLambda(str).ainvoke(token, {"callbacks": [passed], "tags": ["a"], "metadata": {"b": 1}})
        return Told(answer=RunnableLambda(str).invoke(token))

    graph = Graph("inside", state=State, entry=inside, nodes=[node(inside, goes={Told: END})])
    set_debug(True)
    try:
        with collect_runs() as collected:
            await RunnableLambda(str).ainvoke("outside")
            result = await Interlock(Settings(engine=engine)).run(graph, GIVEN)
        assert collected.traced_runs, "it is heard what is not inside a turn"
    finally:
        set_debug(False)
    assert result.state["answer"] == SECRET
    assert passed.heard == [("start", SECRET), ("end", SECRET)]
    assert everywhere.heard
    assert SECRET not in repr(everywhere.heard)
    printed = capsys.readouterr().out
    assert "outside" in printed
    assert SECRET not in printed


def test_a_manager_that_is_passed_is_all_that_there_is_to_a_run_that_is_alone(hook: ContextVar[Any]):
    hook.set(Listener())
    above, local, inherited = Listener(), Listener(), Listener()
    for kind in (CallbackManager, AsyncCallbackManager):
        manager: Any = kind(handlers=[above, inherited], inheritable_handlers=[inherited], tags=["t"], metadata={"m": 1})
        with alone():
            made: Any = kind.configure(manager, [local], True, ["i"], ["l"], {"im": 1}, {"lm": 1})
            assert made.handlers == [above, inherited, local]
            assert made.inheritable_handlers == [inherited]
            assert (made.tags, made.inheritable_tags) == (["t", "i", "l"], ["i"])
            assert (made.metadata, made.inheritable_metadata) == ({"m": 1, "im": 1, "lm": 1}, {"im": 1})
            assert kind.configure().handlers == []
            assert kind.configure([above]).inheritable_handlers == [above]
            with manager_hook(lambda _: pytest.fail("nobody else has a say inside")), alone():
                assert kind.configure().handlers == []
        assert len(kind.configure().handlers) == 1


async def test_where_the_managers_are_not_loaded_there_is_nothing_to_wrap(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "langchain_core.callbacks.manager")
    monkeypatch.delitem(sys.modules, "langsmith.run_helpers", raising=False)
    with alone():
        await asyncio.sleep(0)


def test_a_module_that_another_thread_is_about_to_load_has_nothing_to_hide(monkeypatch: pytest.MonkeyPatch):
    """Such a module is in `sys.modules` with some of its names. Turns that started then ended with `internal`."""
    for name in ("langchain_core.callbacks.manager", "langchain_core.runnables.config", "langsmith.run_helpers"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setattr(module.__spec__, "_initializing", True, raising=False)
        module.tracing_context = partial(pytest.fail, "its other names are not there yet")
        monkeypatch.setitem(sys.modules, name, module)
    with alone():
        pass
