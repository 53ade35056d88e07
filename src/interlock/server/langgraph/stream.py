"""A turn's stored events as the frames of LangGraph's stream modes.

Frames are a pure function of the events, so a stream that is resumed at any frame equals the one that was cut. The id of a frame is
the position of its turn in the session, the number of its event, and the number of the frame among those of the event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.contract.state import State
from interlock.errors import InputSchema
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.server.langgraph.messages import ai_message, message_chunk, reply_id, reply_text
from interlock.server.updates import apply_update

__all__ = ["LAST_PART", "Frame", "FrameId", "Projector", "Snapshot", "Subject", "frames_of", "interrupts_of"]


LAST_PART = 10**6
"""The number of the first frame after all those of an event: how a run ended."""


class FrameId(NamedTuple):
    """The id of a frame. It grows within a thread."""

    position: int
    number: int = 0
    part: int = 0

    def __str__(self) -> str:
        return f"{self.position}.{self.number}.{self.part}"

    @classmethod
    def parse(cls, text: str | None) -> FrameId | None:
        """Read an id as a client sends it; None for all frames. Raises InputSchema."""
        if text is None or text.strip() in {"", "-1", "0"}:
            return None
        parts = text.strip().split(".")
        if len(parts) != len(cls._fields) or not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in parts):  # noqa: PLR2004
            raise InputSchema("'Last-Event-ID' has the form '3.14.1', or is -1 for all events.")
        return cls(*map(int, parts))


class Frame(NamedTuple):
    """One event of a stream, with its mode. `event` also has the namespace of a graph inside the graph."""

    mode: str
    event: str
    data: Any


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The turn whose events are projected, with what came before it in the thread."""

    agent: Agent
    graph: Graph
    graph_id: str
    assistant: str
    thread: str
    run: str
    position: int
    values: Mapping[str, Any]
    """The persisted fields that the turn before it left."""
    messages: Sequence[dict[str, Any]]
    """The conversation up to the turn, with what the user says in it."""
    created: str
    parent: str | None = None
    """The id of the last checkpoint before the turn."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What LangGraph's clients know a run by."""
        return {"run_id": self.run, "thread_id": self.thread, "graph_id": self.graph_id, "assistant_id": self.assistant}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state between two steps: a checkpoint. The id of the one after a turn is the turn's position."""

    id: str
    parent: str | None
    values: dict[str, Any]
    next: list[str]
    task: str | None
    step: int
    interrupts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    error: str | None = None


def interrupts_of(turn: str, waiting: Mapping[str, Any] | None, number: int, *, has_abort: bool) -> list[dict[str, Any]]:
    """Return the question of a suspended turn as LangGraph's interrupt: in Interlock's shape, and in that of its approval dialogs."""
    if waiting is None:
        return []
    recommended = waiting.get("recommended") or None
    allowed = [*(["approve"] if recommended else []), "edit", *(["reject"] if has_abort else [])]
    request = {"name": "answer", "args": {"answer": recommended or ""}, "description": waiting.get("question", "")}
    value = {**waiting, "action_requests": [request], "review_configs": [{"action_name": "answer", "allowed_decisions": allowed}]}
    return [{"value": value, "id": hashlib.sha256(f"{turn} {number}".encode()).hexdigest()[:32]}]


class Projector:
    """Turns events into frames, in order. `snapshots` has the checkpoints so far."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.snapshots: list[Snapshot] = []
        self._raw: list[Event] = []
        self._values: dict[str, dict[str, Any]] = {}
        self._graphs: dict[str, str] = {}
        """The graphs that run inside the entry graph, by their runs."""
        self._root = ""
        self._text = ""
        self._reply: dict[str, Any] | None = None
        self._again = 0
        self._speakers = frozenset(subject.agent.speakers)

    def project(self, event: Event) -> list[Frame]:
        """Return the frames of the next event, in all modes."""
        if event["event"] == "on_custom_event" and event["name"] == RETOLD and not event["run_id"]:
            self._forget(event["data"]["from"])
            return []
        self._raw.append(event)
        return [*self._project(event), Frame("events", "events", event)]

    def _forget(self, number: int) -> None:
        """Go back to the state after the first events: the turn was resumed, and emits the rest again."""
        self._values, self._text, self._reply = {}, "", None
        self._again += 1
        self.snapshots = []
        self._raw = [event for event in self._raw if event["metadata"]["sequence"] <= number]
        for event in self._raw:
            list(self._project(event))

    def _project(self, event: Event) -> Iterator[Frame]:
        kind, node = event["event"], event["metadata"].get("langgraph_node")
        if kind == "on_custom_event":
            yield Frame("custom", "custom", {"name": event["name"], "data": event["data"]})
        elif kind == "on_chat_model_stream":
            yield from self._chunk(event, str(node))
        elif not kind.startswith("on_chain_"):
            return
        elif node is not None:
            yield from self._step(event, kind, str(node))
        elif kind == "on_chain_start":
            yield from self._start(event)
        elif not event["parent_ids"]:
            yield from self._end(event, kind)

    def _start(self, event: Event) -> Iterator[Frame]:
        given = cast("dict[str, Any]", event["data"].get("input") or {})
        if event["parent_ids"]:
            self._values[event["run_id"]] = dict(given)
            self._graphs[event["run_id"]] = event["name"]
            return
        self._root = event["run_id"]
        self._values[self._root] = dict(self.subject.values)
        apply_update(self.subject.graph.state, self._values[self._root], given)
        yield Frame("values", "values", self._shown())

    def _step(self, event: Event, kind: str, node: str) -> Iterator[Frame]:
        graph = event["parent_ids"][-1] if event["parent_ids"] else self._root
        space = self._namespace(event, node)
        name, run = node.rpartition("/")[2], event["run_id"]
        step = event["metadata"].get("langgraph_step", 0)
        if kind == "on_chain_start":
            if not space:
                yield from self._checkpoint(event, step - 1, next_=[name])
            task: dict[str, Any] = {"id": run, "name": name, "input": event["data"].get("input"), "triggers": []}
            yield from self._task(space, "task", task, step)
            return
        output = event["data"].get("output")
        error = event["data"].get("error")
        result: dict[str, Any] = {"id": run, "name": name, "error": None, "result": output, "interrupts": []}
        if error is not None:
            if error.get("code") != "person_awaited":
                yield from self._task(space, "task_result", {**result, "error": error.get("message"), "result": None}, step)
            return
        values = self._values.setdefault(graph, {})
        apply_update(self._state_of(graph), values, output or {})
        yield Frame("updates", _named("updates", space), {name: output})
        yield from self._task(space, "task_result", result, step)
        yield Frame("values", _named("values", space), dict(values) if space else self._shown())

    def _task(self, space: str, kind: str, payload: dict[str, Any], step: int) -> Iterator[Frame]:
        yield Frame("tasks", _named("tasks", space), payload)
        yield Frame("debug", _named("debug", space), {"step": step, "timestamp": self.subject.created, "type": kind, "payload": payload})

    def _chunk(self, event: Event, node: str) -> Iterator[Frame]:
        """Project a part of the reply. What a model says in a node that does not speak to the user is in mode `events` only."""
        chunk = event["data"].get("chunk")
        text = cast("Mapping[str, Any]", chunk).get("text") if isinstance(chunk, Mapping) else None
        if not isinstance(text, str) or not text or (self._speakers and self._speakers.isdisjoint(node.split("/"))):
            return
        id_, metadata = self._reply_id(), self._message_metadata(event)
        if not self._text:
            yield Frame("messages", "messages/metadata", {id_: {"metadata": metadata}})
        self._text += text
        yield Frame("messages-tuple", "messages", [message_chunk(text, id_), metadata])
        yield Frame("messages", "messages/partial", [ai_message(self._text, id_)])

    def _end(self, event: Event, kind: str) -> Iterator[Frame]:
        result = cast("dict[str, Any]", event["data"].get("output") or {}) if kind == "on_chain_end" else {}
        status, output = result.get("status"), result.get("output")
        state = result.get("state")
        if state:
            self._values[self._root] = dict(state)
        if status == "waiting":
            number = event["metadata"]["sequence"]
            waiting = cast("dict[str, Any]", result["metadata"]).get("waiting")
            found = interrupts_of(self.subject.run, waiting, number, has_abort=self.subject.agent.abort is not None)
            paused = [str(result["path"][-1]).rpartition("/")[2]] if result.get("path") else []
            yield from self._checkpoint(event, len(self.snapshots), next_=paused, interrupts=found)
            yield Frame("updates", "updates", {"__interrupt__": found})
            yield Frame("values", "values", {**self._shown(), "__interrupt__": found})
            return
        if output is not None and status in {"success", "error"}:
            id_ = reply_id(self.subject.run)
            message = ai_message(reply_text(output), id_)
            metadata = self._message_metadata(event)
            if not self._text:
                yield Frame("messages-tuple", "messages", [message, metadata])
                yield Frame("messages", "messages/metadata", {id_: {"metadata": metadata}})
            yield Frame("messages", "messages/complete", [message])
            self._reply = message
        error = cast("dict[str, Any] | None", event["data"].get("error") or result.get("error"))
        yield from self._checkpoint(event, len(self.snapshots), next_=[], error=None if error is None else error.get("message"))
        yield Frame("values", "values", self._shown())

    def _checkpoint(
        self,
        event: Event,
        step: int,
        *,
        next_: list[str],
        interrupts: Sequence[dict[str, Any]] = (),
        error: str | None = None,
    ) -> Iterator[Frame]:
        parent = self.snapshots[-1].id if self.snapshots else self.subject.parent
        task = event["run_id"] if event["parent_ids"] or not self.snapshots else self.snapshots[-1].task
        snapshot = Snapshot(
            id=f"{self.subject.position}.{event['metadata']['sequence']}" if next_ else str(self.subject.position),
            parent=parent,
            values=self._shown(),
            next=next_,
            task=task if next_ else None,
            step=step,
            interrupts=list(interrupts),
            error=error,
        )
        self.snapshots.append(snapshot)
        payload = snapshot_payload(self.subject, snapshot)
        yield Frame("checkpoints", "checkpoints", payload)
        debug = {"step": step, "timestamp": self.subject.created, "type": "checkpoint", "payload": payload}
        yield Frame("debug", "debug", debug)

    def _shown(self) -> dict[str, Any]:
        """Return the values of the entry graph, with the conversation as `messages`."""
        messages = [*self.subject.messages, *([self._reply] if self._reply is not None else [])]
        return {**self._values.get(self._root, {}), "messages": messages}

    def _state_of(self, graph: str) -> State:
        name = self._graphs.get(graph)
        return next((one.state for one in self.subject.agent.graphs if one.name == name), self.subject.graph.state)

    def _namespace(self, event: Event, node: str) -> str:
        """Return the namespace of a node inside other nodes, with the run of each, or nothing for a node of the entry graph."""
        outer = node.split("/")[:-1]
        # The parents are the turn, then a node and its graph for each level.
        runs = event["parent_ids"][1::2]
        return "|".join(f"{name}:{run}" for name, run in zip(outer, runs, strict=False))

    def _reply_id(self) -> str:
        """Return the id of the reply's parts; another one after a part was said again, so that no client joins the two."""
        id_ = reply_id(self.subject.run)
        return f"{id_}-{self._again + 1}" if self._again else id_

    def _message_metadata(self, event: Event) -> dict[str, Any]:
        own = {name: value for name, value in event["metadata"].items() if name in {"langgraph_node", "langgraph_step"}}
        return {**own, **self.subject.metadata, "tags": []}


def snapshot_payload(subject: Subject, snapshot: Snapshot) -> dict[str, Any]:
    """Return a checkpoint as LangGraph streams it."""
    tasks = [{"id": snapshot.task, "name": name, "interrupts": snapshot.interrupts, "state": None} for name in snapshot.next]
    return {
        "config": config_of(subject.thread, snapshot.id),
        "metadata": {"source": "loop", "step": snapshot.step, "parents": {}, **subject.metadata},
        "values": snapshot.values,
        "next": snapshot.next,
        "parent_config": None if snapshot.parent is None else config_of(subject.thread, snapshot.parent),
        "tasks": tasks,
    }


def config_of(thread: str, checkpoint: str) -> dict[str, Any]:
    """Return the address of a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": checkpoint}}


def _named(mode: str, space: str) -> str:
    return f"{mode}|{space}" if space else mode


def frames_of(
    frames: Iterable[tuple[int, list[Frame]]], *, position: int, modes: Sequence[str], with_inner: bool, after: FrameId | None
) -> Iterator[tuple[FrameId, Frame]]:
    """Yield the frames of events with their ids, without those that a client did not ask for or has had."""
    for number, found in frames:
        for part, frame in enumerate(found, 1):
            id_ = FrameId(position, number, part)
            if frame.mode in modes and (with_inner or "|" not in frame.event) and (after is None or id_ > after):
                yield id_, frame
