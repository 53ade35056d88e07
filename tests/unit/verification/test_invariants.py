"""What a proof can ask a turn that was taken for it."""

from __future__ import annotations

from interlock import Interlock, Settings
from interlock.invariants import Observed
from interlock.runtime.events import Event


async def test_a_proof_sees_the_events_of_one_kind_in_their_order():
    events: list[Event] = []
    result = await Interlock(Settings(engine="direct", model="stub")).run("sam", "hello", on_event=events.append)
    observed = Observed(result, events)
    nodes = [event["name"] for event in observed.emitted("on_chain_end") if "langgraph_node" in event["metadata"]]
    assert nodes == [*result.path]
    assert len(observed.emitted("on_chat_model_start")) == 1
    assert not observed.emitted("on_tool_start")
