"""A turn's stored events as those of LangGraph's streaming protocol, in which one stream has all runs of a thread.

They are made of the frames of the stream modes, and like them are a pure function of the stored events. `seq` is a number that grows
within a thread: it has the position of the turn, the number of the event, and the number of the part among those of the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.server.langgraph.stream import Frame, Projector

__all__ = ["CHANNELS", "TurnEvents", "is_wanted", "position_of", "seq_of"]

CHANNELS = ("values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom")
_TURN, _EVENT = 10**9, 64


def seq_of(position: int, number: int = 0, part: int = 0) -> int:
    """Return the sequence number of a part of an event. JavaScript can hold those of millions of turns."""
    return position * _TURN + number * _EVENT + part


def position_of(seq: int) -> int:
    """Return the position of the turn that a sequence number is of."""
    return seq // _TURN


class TurnEvents:
    """Turns the events of one turn into those of the protocol."""

    def __init__(self, projector: Projector, *, ms: int) -> None:
        self._projector = projector
        self._subject = projector.subject
        self._ms = ms
        self._number = 0
        self._message: dict[str, Any] | None = None
        self._nodes: dict[str, str] = {}
        self._inner: dict[str, list[str]] = {}
        self._is_open = False

    def project(self, event: Event) -> list[dict[str, Any]]:
        """Return the events of the protocol for the next event, on all channels."""
        self._number = event["metadata"]["sequence"]
        return self._numbered(self._parts(event))

    def end(self, error: str | None) -> list[dict[str, Any]]:
        """Return the end of a run whose turn has ended without an event, because it was cancelled or could not be run."""
        if self._number and not self._is_open:
            return []
        self._number += 1
        return self._numbered([*self._finish_message(), *self._lifecycle("failed", error=error or "The run did not end by itself.")])

    def _numbered(self, parts: Iterable[tuple[str, list[str], Any]]) -> list[dict[str, Any]]:
        return [
            {
                "type": "event",
                "method": method,
                "seq": seq_of(self._subject.position, self._number, part),
                "event_id": f"{self._subject.run}.{self._number}.{part}",
                "params": {"namespace": namespace, "timestamp": self._ms, "data": data},
            }
            for part, (method, namespace, data) in enumerate(parts, start=1)
        ]

    def _parts(self, event: Event) -> Iterator[tuple[str, list[str], Any]]:
        kind, _, moment = event["event"].rpartition("_")
        frames = self._projector.project(event)
        if event["event"] == "on_custom_event" and event["name"] == RETOLD and not event["run_id"]:
            yield from self._finish_message()
            return
        if not self._is_open:
            self._is_open = True
            yield from self._lifecycle("running")
        if kind == "on_chain":
            yield from self._started(event, moment)
        elif kind == "on_tool":
            yield from self._tool(event, moment)
        for frame in frames:
            yield from self._framed(frame)
        if kind == "on_chain" and moment != "start" and "langgraph_node" not in event["metadata"]:
            yield from self._ended(event, moment)

    def _started(self, event: Event, moment: str) -> Iterator[tuple[str, list[str], Any]]:
        node, run = event["metadata"].get("langgraph_node"), event["run_id"]
        if node is not None:
            self._nodes[run] = str(node).rpartition("/")[2]
        elif moment == "start" and event["parent_ids"]:
            # The parents are the turn, then a node and its graph for each level.
            self._inner[run] = [f"{self._nodes.get(parent, '')}:{parent}" for parent in event["parent_ids"][1::2]]
            yield "lifecycle", self._inner[run], {"event": "started", "graph_name": event["name"]}

    def _ended(self, event: Event, moment: str) -> Iterator[tuple[str, list[str], Any]]:
        if event["parent_ids"]:
            if event["run_id"] in self._inner:
                status = "completed" if moment == "end" else "failed"
                yield "lifecycle", self._inner.pop(event["run_id"]), {"event": status, "graph_name": event["name"]}
            return
        yield from self._finish_message()
        result = cast("Mapping[str, Any]", (event["data"].get("output") if moment == "end" else None) or {})
        error = cast("Mapping[str, Any]", event["data"].get("error") or result.get("error") or {})
        self._is_open = False
        if result.get("status") == "waiting":
            for one in self._projector.snapshots[-1].interrupts:
                yield "input.requested", [], {"interrupt_id": one["id"], "value": one["value"]}
            yield from self._lifecycle("interrupted")
        elif result.get("status") == "success":
            yield from self._lifecycle("completed")
        else:
            yield from self._lifecycle("failed", error=f"{error.get('code', 'error')}: {error.get('message', '')}")

    def _lifecycle(self, status: str, *, error: str | None = None) -> Iterator[tuple[str, list[str], Any]]:
        yield "lifecycle", [], {"event": status, "graph_name": self._subject.graph_id, **({} if error is None else {"error": error})}

    def _tool(self, event: Event, moment: str) -> Iterator[tuple[str, list[str], Any]]:
        node, call = str(event["metadata"].get("langgraph_node", "")), event["run_id"]
        space = [f"{name}:{run}" for name, run in zip(node.split("/")[:-1], event["parent_ids"][1::2], strict=False)]
        data = event["data"]
        if moment == "start":
            yield "tools", space, {"event": "tool-started", "tool_call_id": call, "tool_name": event["name"], "input": data.get("input")}
        elif moment == "end":
            yield "tools", space, {"event": "tool-finished", "tool_call_id": call, "output": data.get("output")}
        elif moment == "error":
            error = cast("Mapping[str, Any]", data.get("error") or {})
            told = {"message": str(error.get("message", "")), "code": error.get("code")}
            yield "tools", space, {"event": "tool-error", "tool_call_id": call, **told}

    def _framed(self, frame: Frame) -> Iterator[tuple[str, list[str], Any]]:
        space, data = frame.event.split("|")[1:], frame.data
        if frame.mode == "values":
            yield "values", space, {name: value for name, value in data.items() if name != "__interrupt__"}
        elif frame.mode == "updates":
            yield from (("updates", space, {"node": name, "values": values}) for name, values in data.items() if name != "__interrupt__")
        elif frame.mode == "messages-tuple":
            yield from self._said(*data)
        elif frame.mode == "tasks":
            yield "tasks", space, data
        elif frame.mode == "checkpoints":
            yield "checkpoints", space, _checkpoint(data)
        elif frame.mode == "custom":
            yield "custom", space, {"name": data["name"], "payload": data["data"]}

    def _said(self, message: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[tuple[str, list[str], Any]]:
        """Add a part to the message that is open, or to a new one."""
        if self._message is None or self._message["id"] != message["id"]:
            yield from self._finish_message()
            self._message = {"id": message["id"], "text": ""}
            told = {name: metadata[name] for name in ("run_id", "thread_id", "langgraph_node") if name in metadata}
            yield "messages", [], {"event": "message-start", "role": "ai", "id": message["id"], "metadata": told}
            yield "messages", [], {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
        self._message["text"] += message["content"]
        yield "messages", [], {"event": "content-block-delta", "index": 0, "delta": {"type": "text-delta", "text": message["content"]}}

    def _finish_message(self) -> Iterator[tuple[str, list[str], Any]]:
        if self._message is not None:
            content = {"type": "text", "text": self._message["text"]}
            self._message = None
            yield "messages", [], {"event": "content-block-finish", "index": 0, "content": content}
            yield "messages", [], {"event": "message-finish"}


def _checkpoint(payload: Mapping[str, Any]) -> dict[str, Any]:
    parent = payload["parent_config"]
    return {
        "id": payload["config"]["configurable"]["checkpoint_id"],
        **({} if parent is None else {"parent_id": parent["configurable"]["checkpoint_id"]}),
        "step": payload["metadata"]["step"],
        "source": payload["metadata"]["source"],
    }


def is_wanted(event: Mapping[str, Any], channels: Sequence[str], namespaces: Sequence[Sequence[str]], depth: int | None) -> bool:
    """Return whether a client asked for an event: by its channel, and by the start of its namespace."""
    method, params = event["method"], event["params"]
    channel = "input" if method == "input.requested" else method
    is_named = channel == "custom" and f"custom:{params['data']['name']}" in channels
    if channel not in channels and not is_named:
        return False
    space = params["namespace"]
    return not namespaces or any(_is_below(space, prefix) and (depth is None or len(space) - len(prefix) <= depth) for prefix in namespaces)


def _is_below(space: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a namespace begins with a prefix, whose parts may leave out the run of a node."""
    pairs = zip(space, prefix, strict=False)
    return len(prefix) <= len(space) and all(one == wanted or one.partition(":")[0] == wanted for one, wanted in pairs)
