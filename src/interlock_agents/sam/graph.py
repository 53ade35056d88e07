"""sam: text, audio or image in, one model call, one reply. These rows are the architecture."""

from __future__ import annotations

from interlock.capabilities import Memory
from interlock.contract import END, Graph, node
from interlock_agents.sam.nodes import (
    decision_logic_node,
    error_router_node,
    format_response_node,
    model_call_node,
    result_handling_node,
    router_node,
    state_init_node,
    task_preprocessing_node,
)
from interlock_agents.sam.state import (
    AgentState,
    Answered,
    CallModel,
    Classified,
    Failure,
    Formatted,
    Handled,
    Initialised,
    Preprocess,
    Preprocessed,
    Refused,
    Routed,
    Success,
)

__all__ = ["sam"]

# fmt: off
sam = Graph(
    "sam", state=AgentState, entry=router_node, max_steps=10,
    takes=("raw_input", "conversation_id", "trace_id"), gives="response", forbids=(Memory,),
    nodes=[
        node(router_node,             goes={Routed: state_init_node}),
        node(state_init_node,         goes={Initialised: decision_logic_node}),
        node(decision_logic_node,     goes={Preprocess: task_preprocessing_node,
                                            CallModel: model_call_node,
                                            Success: format_response_node,
                                            Failure: error_router_node}),
        node(task_preprocessing_node, goes={Preprocessed: decision_logic_node}),
        node(model_call_node,         goes={Answered: result_handling_node,
                                            Refused: error_router_node}),
        node(result_handling_node,    goes={Handled: decision_logic_node}),
        node(error_router_node,       goes={Classified: format_response_node}),
        node(format_response_node,    goes={Formatted: END}),
    ],
)
# fmt: on
