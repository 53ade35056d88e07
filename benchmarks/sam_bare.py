"""sam's own functions in a plain loop: no contracts, no events, no checks. The floor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from interlock.system import SystemClock, SystemIds
from interlock_agents.sam import nodes
from interlock_agents.sam.capabilities import ModelBackend
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.state import Answered, CallModel, Preprocess, Response, Success


def bare_sam(model: ModelBackend) -> Callable[[str], Awaitable[Response]]:
    clock, ids, transcriber, images = SystemClock(), SystemIds(), NoTranscriber(), NoImages()

    async def turn(text: str) -> Response:
        routed = await nodes.router_node(text)
        start = await nodes.state_init_node(None, None, clock=clock, ids=ids)
        prepared = response = answer = None
        error_type = metadata = None
        command = None
        while True:
            decision = await nodes.decision_logic_node(command, bool(prepared), answer is not None)
            command = decision.command
            if isinstance(decision, Preprocess):
                done = await nodes.task_preprocessing_node(routed.input_type, text, transcriber=transcriber, images=images)
                prepared = done.preprocessing_result
                continue
            if isinstance(decision, CallModel):
                asked = await nodes.model_call_node(prepared, routed.input_type, start.trace_id, model=model)
                response = asked.model_response
                if isinstance(asked, Answered):
                    handled = await nodes.result_handling_node(response)
                    answer, metadata = handled.final_output, handled.model_metadata
                    continue
            if not isinstance(decision, Success):
                failed = await nodes.error_router_node(response, prepared)
                answer, error_type = failed.final_output, failed.error_type
            ended = await nodes.format_response_node(start.conversation_id, start.trace_id, answer, error_type, metadata)
            return ended.response

    return turn
