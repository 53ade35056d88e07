"""Events as frames, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.errors import InputSchema
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.server.langgraph.stream import FrameId, Projector, Subject
from tests.support.parcels import agent, graph


def event(kind: str, run: str, number: int, data: dict[str, Any], *, node: str | None = None, name: str = "") -> Event:
    metadata: dict[str, Any] = {"sequence": number} | ({} if node is None else {"langgraph_node": node, "langgraph_step": 1})
    parents = [] if node is None else ["root"]
    return {"event": kind, "name": name, "run_id": run, "parent_ids": parents, "tags": [], "metadata": metadata, "data": data}


def said(number: int, text: str) -> Event:
    return event("on_chat_model_stream", "call", number, {"chunk": {"text": text}}, node="pause")


def projector() -> Projector:
    about: dict[str, Any] = {"graph_id": "parcels", "assistant": "a", "thread": "t", "run": "r", "position": 1, "created": ""}
    return Projector(Subject(agent=agent, graph=graph, values={}, messages=[], **about))


def test_what_is_said_again_is_another_message_and_its_text_starts_again():
    seen = projector()
    first = [frame for one in (event("on_chain_start", "root", 1, {"input": {}}), said(2, "Hel")) for frame in seen.project(one)]
    assert seen.project(event("on_custom_event", "", 3, {"from": 1}, name=RETOLD)) == []
    second = [frame for one in (said(4, "Hello"), said(5, " you")) for frame in seen.project(one)]
    chunks = [[frame.data[0] for frame in frames if frame.mode == "messages-tuple"] for frames in (first, second)]
    assert {chunk["id"] for chunk in chunks[0]}.isdisjoint(chunk["id"] for chunk in chunks[1])
    assert "".join(chunk["content"] for chunk in chunks[1]) == "Hello you"
    partial = [frame.data[0]["content"] for frame in second if frame.event == "messages/partial"]
    assert partial == ["Hello", "Hello you"]


def test_the_values_go_back_to_what_is_emitted_again():
    seen = projector()
    seen.project(event("on_chain_start", "root", 1, {"input": {"text": "x"}}))
    seen.project(event("on_chain_start", "n", 2, {"input": {}}, node="pause"))
    seen.project(event("on_chain_end", "n", 3, {"output": {"answer": "first"}}, node="pause"))
    seen.project(event("on_custom_event", "", 4, {"from": 2}, name=RETOLD))
    frames = seen.project(event("on_chain_start", "m", 5, {"input": {}}, node="deliver"))
    checkpoint = next(frame.data for frame in frames if frame.mode == "checkpoints")
    assert checkpoint["values"] == {"text": "x", "messages": []}
    assert [snapshot.id for snapshot in seen.snapshots] == ["1.2", "1.5"]


@pytest.mark.parametrize("text", ["x", "1.2", "1.2.3.4", "1.-2.3", "1." + "9" * 16 + ".1", "\u0663.\u0661.\u0661"])
def test_an_id_that_no_frame_has_is_refused(text: str):
    with pytest.raises(InputSchema):
        FrameId.parse(text)


def test_ids_are_read_as_they_are_written():
    assert FrameId.parse(str(FrameId(3, 14, 1))) == (3, 14, 1)
    assert [FrameId.parse(text) for text in (None, "", "-1", "0")] == [None] * 4
