"""sam's functions in a StateGraph written by hand, the way its users write them: each node returns an update and the node that comes next.

It does the same work with the same adapters, and keeps none of the promises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from interlock.system import SystemClock, SystemIds
from interlock_agents.sam import nodes
from interlock_agents.sam.capabilities import ModelBackend, ModelResponse
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.state import Answered, PreprocessingResult, Response


class Given(TypedDict):
    raw_input: str
    input_type: Any


class State(Given, total=False):
    conversation_id: str
    trace_id: str
    created_at: str
    preprocessing_result: PreprocessingResult | None
    model_response: ModelResponse | None
    model_metadata: Any
    final_output: str | None
    error_type: Any
    response: Response | None
    command: Any


def by_hand_sam(model: ModelBackend, *, checkpointer: BaseCheckpointSaver[Any] | None = None) -> Callable[[str], Awaitable[Response]]:
    clock, ids, transcriber, images = SystemClock(), SystemIds(), NoTranscriber(), NoImages()

    async def router(state: State) -> Command[str]:
        done = await nodes.router_node(state["raw_input"])
        return Command(update=vars(done), goto="state_init_node")

    async def state_init(state: State) -> Command[str]:
        done = await nodes.state_init_node(state.get("conversation_id"), state.get("trace_id"), clock=clock, ids=ids)
        return Command(update=vars(done), goto="decision_logic_node")

    async def decision(state: State) -> Command[str]:
        done = await nodes.decision_logic_node(
            state.get("command"), bool(state.get("preprocessing_result")), state.get("final_output") is not None
        )
        goto = {
            "preprocess": "task_preprocessing_node",
            "call_model": "model_call_node",
            "success": "format_response_node",
            "failure": "error_router_node",
        }
        return Command(update=vars(done), goto=goto[done.command])

    async def preprocess(state: State) -> Command[str]:
        done = await nodes.task_preprocessing_node(state["input_type"], state["raw_input"], transcriber=transcriber, images=images)
        return Command(update=vars(done), goto="decision_logic_node")

    async def call_model(state: State) -> Command[str]:
        done = await nodes.model_call_node(state.get("preprocessing_result"), state["input_type"], state.get("trace_id", ""), model=model)
        return Command(update=vars(done), goto="result_handling_node" if isinstance(done, Answered) else "error_router_node")

    async def handle_result(state: State) -> Command[str]:
        done = await nodes.result_handling_node(state.get("model_response"))
        return Command(update=vars(done), goto="decision_logic_node")

    async def route_error(state: State) -> Command[str]:
        done = await nodes.error_router_node(state.get("model_response"), state.get("preprocessing_result"))
        return Command(update=vars(done), goto="format_response_node")

    async def format_response(state: State) -> Command[str]:
        done = await nodes.format_response_node(
            state.get("conversation_id", ""),
            state.get("trace_id", ""),
            state.get("final_output"),
            state.get("error_type"),
            state.get("model_metadata"),
        )
        return Command(update=vars(done), goto=END)

    builder = StateGraph(State)
    builder.add_node("router_node", router)
    builder.add_node("state_init_node", state_init)
    builder.add_node("decision_logic_node", decision)
    builder.add_node("task_preprocessing_node", preprocess)
    builder.add_node("model_call_node", call_model)
    builder.add_node("result_handling_node", handle_result)
    builder.add_node("error_router_node", route_error)
    builder.add_node("format_response_node", format_response)
    builder.add_edge(START, "router_node")
    graph = builder.compile(checkpointer=checkpointer)

    async def turn(text: str) -> Response:
        config: RunnableConfig | None = {"configurable": {"thread_id": await ids.new()}} if checkpointer is not None else None
        return (await graph.ainvoke({"raw_input": text, "input_type": None}, config))["response"]

    return turn
