"""sam's functions in pydantic-graph: nodes whose return types are the edges, one state that nodes write to.

Its other way, steps and decisions, takes longer for a graph like this.
"""
# It lives in an environment of its own, of which the type checker here knows nothing.
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext

from interlock.capabilities import Clock, Ids
from interlock.system import SystemClock, SystemIds
from interlock_agents.sam import nodes
from interlock_agents.sam.capabilities import Images, ModelBackend, ModelResponse, Transcriber
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.state import Answered, Command, ErrorType, InputType, PreprocessingResult, Response


@dataclass
class State:
    raw_input: str
    input_type: InputType = "text"
    conversation_id: str | None = None
    trace_id: str | None = None
    created_at: str = ""
    preprocessing_result: PreprocessingResult | None = None
    model_response: ModelResponse | None = None
    model_metadata: Any = None
    final_output: str | None = None
    error_type: ErrorType | None = None
    command: Command | None = None


@dataclass
class Deps:
    model: ModelBackend
    clock: Clock
    ids: Ids
    transcriber: Transcriber
    images: Images


Context = GraphRunContext[State, Deps]


@dataclass
class RouterNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> StateInitNode:
        ctx.state.input_type = (await nodes.router_node(ctx.state.raw_input)).input_type
        return StateInitNode()


@dataclass
class StateInitNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> DecisionLogicNode:
        state = ctx.state
        done = await nodes.state_init_node(state.conversation_id, state.trace_id, clock=ctx.deps.clock, ids=ctx.deps.ids)
        state.conversation_id, state.trace_id, state.created_at = done.conversation_id, done.trace_id, done.created_at
        return DecisionLogicNode()


@dataclass
class DecisionLogicNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> TaskPreprocessingNode | ModelCallNode | FormatResponseNode | ErrorRouterNode:
        state = ctx.state
        done = await nodes.decision_logic_node(state.command, bool(state.preprocessing_result), state.final_output is not None)
        state.command = done.command
        match done.command:
            case "preprocess":
                return TaskPreprocessingNode()
            case "call_model":
                return ModelCallNode()
            case "success":
                return FormatResponseNode()
            case "failure":
                return ErrorRouterNode()


@dataclass
class TaskPreprocessingNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> DecisionLogicNode:
        state, deps = ctx.state, ctx.deps
        done = await nodes.task_preprocessing_node(state.input_type, state.raw_input, transcriber=deps.transcriber, images=deps.images)
        state.preprocessing_result = done.preprocessing_result
        return DecisionLogicNode()


@dataclass
class ModelCallNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> ResultHandlingNode | ErrorRouterNode:
        state = ctx.state
        done = await nodes.model_call_node(state.preprocessing_result, state.input_type, state.trace_id or "", model=ctx.deps.model)
        state.model_response = done.model_response
        return ResultHandlingNode() if isinstance(done, Answered) else ErrorRouterNode()


@dataclass
class ResultHandlingNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> DecisionLogicNode:
        done = await nodes.result_handling_node(ctx.state.model_response)
        ctx.state.final_output, ctx.state.model_metadata = done.final_output, done.model_metadata
        return DecisionLogicNode()


@dataclass
class ErrorRouterNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> FormatResponseNode:
        done = await nodes.error_router_node(ctx.state.model_response, ctx.state.preprocessing_result)
        ctx.state.final_output, ctx.state.error_type = done.final_output, done.error_type
        return FormatResponseNode()


@dataclass
class FormatResponseNode(BaseNode[State, Deps, Response]):
    async def run(self, ctx: Context) -> End[Response]:
        s = ctx.state
        done = await nodes.format_response_node(s.conversation_id or "", s.trace_id or "", s.final_output, s.error_type, s.model_metadata)
        return End(done.response)


def pydantic_graph_sam(model: ModelBackend) -> Callable[[str], Awaitable[Response]]:
    deps = Deps(model, SystemClock(), SystemIds(), NoTranscriber(), NoImages())
    g = GraphBuilder(name="sam", state_type=State, deps_type=Deps, input_type=RouterNode, output_type=Response, auto_instrument=False)
    g.add(
        g.edge_from(g.start_node).to(RouterNode),
        g.node(RouterNode),
        g.node(StateInitNode),
        g.node(DecisionLogicNode),
        g.node(TaskPreprocessingNode),
        g.node(ModelCallNode),
        g.node(ResultHandlingNode),
        g.node(ErrorRouterNode),
        g.node(FormatResponseNode),
    )
    graph = g.build()

    async def turn(text: str) -> Response:
        return await graph.run(state=State(raw_input=text), deps=deps, inputs=RouterNode())

    return turn
