"""sam's functions in burr: actions that say what they read and write, transitions by conditions on the state.

The graph is built once. A turn is an application of its own on it, as an application holds the state of one conversation.
"""
# It lives in an environment of its own, of which the type checker here knows nothing.
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Awaitable, Callable

from burr.core import ApplicationBuilder, GraphBuilder, State, action, when

from interlock.capabilities import Clock, Ids
from interlock.system import SystemClock, SystemIds
from interlock_agents.sam import nodes
from interlock_agents.sam.capabilities import Images, ModelBackend, Transcriber
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.state import Response


@action(reads=["raw_input"], writes=["input_type"])
async def router_node(state: State) -> State:
    return state.update(input_type=(await nodes.router_node(state["raw_input"])).input_type)


@action(reads=["conversation_id", "trace_id"], writes=["conversation_id", "trace_id", "created_at"])
async def state_init_node(state: State, clock: Clock, ids: Ids) -> State:
    done = await nodes.state_init_node(state["conversation_id"], state["trace_id"], clock=clock, ids=ids)
    return state.update(conversation_id=done.conversation_id, trace_id=done.trace_id, created_at=done.created_at)


@action(reads=["command", "preprocessing_result", "final_output"], writes=["command"])
async def decision_logic_node(state: State) -> State:
    has_output = state["final_output"] is not None
    return state.update(
        command=(await nodes.decision_logic_node(state["command"], bool(state["preprocessing_result"]), has_output)).command
    )


@action(reads=["input_type", "raw_input"], writes=["preprocessing_result"])
async def task_preprocessing_node(state: State, transcriber: Transcriber, images: Images) -> State:
    done = await nodes.task_preprocessing_node(state["input_type"], state["raw_input"], transcriber=transcriber, images=images)
    return state.update(preprocessing_result=done.preprocessing_result)


@action(reads=["preprocessing_result", "input_type", "trace_id"], writes=["model_response", "model_status"])
async def model_call_node(state: State, model: ModelBackend) -> State:
    done = await nodes.model_call_node(state["preprocessing_result"], state["input_type"], state["trace_id"], model=model)
    return state.update(model_response=done.model_response, model_status=done.model_response.status)


@action(reads=["model_response"], writes=["final_output", "model_metadata"])
async def result_handling_node(state: State) -> State:
    done = await nodes.result_handling_node(state["model_response"])
    return state.update(final_output=done.final_output, model_metadata=done.model_metadata)


@action(reads=["model_response", "preprocessing_result"], writes=["final_output", "error_type"])
async def error_router_node(state: State) -> State:
    done = await nodes.error_router_node(state["model_response"], state["preprocessing_result"])
    return state.update(final_output=done.final_output, error_type=done.error_type)


@action(reads=["conversation_id", "trace_id", "final_output", "error_type", "model_metadata"], writes=["response"])
async def format_response_node(state: State) -> State:
    done = await nodes.format_response_node(
        state["conversation_id"], state["trace_id"], state["final_output"], state["error_type"], state["model_metadata"]
    )
    return state.update(response=done.response)


START: dict[str, None] = dict.fromkeys(
    (
        "conversation_id",
        "trace_id",
        "preprocessing_result",
        "model_response",
        "model_status",
        "model_metadata",
        "final_output",
        "error_type",
        "command",
    )
)


def burr_sam(model: ModelBackend) -> Callable[[str], Awaitable[Response]]:
    graph = (
        GraphBuilder()
        .with_actions(
            router_node=router_node,
            state_init_node=state_init_node.bind(clock=SystemClock(), ids=SystemIds()),
            decision_logic_node=decision_logic_node,
            task_preprocessing_node=task_preprocessing_node.bind(transcriber=NoTranscriber(), images=NoImages()),
            model_call_node=model_call_node.bind(model=model),
            result_handling_node=result_handling_node,
            error_router_node=error_router_node,
            format_response_node=format_response_node,
        )
        .with_transitions(
            ("router_node", "state_init_node"),
            ("state_init_node", "decision_logic_node"),
            ("decision_logic_node", "task_preprocessing_node", when(command="preprocess")),
            ("decision_logic_node", "model_call_node", when(command="call_model")),
            ("decision_logic_node", "format_response_node", when(command="success")),
            ("decision_logic_node", "error_router_node", when(command="failure")),
            ("task_preprocessing_node", "decision_logic_node"),
            ("model_call_node", "result_handling_node", when(model_status="success")),
            ("model_call_node", "error_router_node"),
            ("result_handling_node", "decision_logic_node"),
            ("error_router_node", "format_response_node"),
        )
        .build()
    )

    async def turn(text: str) -> Response:
        start = State({**START, "raw_input": text})
        application = await ApplicationBuilder().with_graph(graph).with_state(start).with_entrypoint("router_node").abuild()
        _, _, state = await application.arun(halt_after=["format_response_node"])
        return state["response"]

    return turn
