"""The LangGraph engine: the rows as a real compiled StateGraph. The one place that talks to LangGraph's graph API.

What LangGraph would let a node do, and what is done here so that it cannot:
- it writes any channel, unknown keys vanish: the update is built from the outcome, exactly;
- it goes anywhere by a Command of its own: only this file makes Commands, and there is no static edge but START's;
- it sees the whole state when a hint does not resolve: the read schema is always passed;
- it reaches the store, the config and the whole state through ambient functions: they are taken away around the node;
- a checkpoint names any class to be made anew: only the classes of the state's fields are;
- a value that looks like an "overwrite" marker defeats a reducer: reduced fields have a channel that knows no markers;
- tracers and callback handlers see every state as it is: a turn has none, and where LangGraph alone drives secrets are taken out.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command
from typing_extensions import TypedDict

from interlock.contract import Graph
from interlock.contract.node import Node, StepResult
from interlock.contract.state import Field, Values
from interlock.engine import RunNode
from interlock.engine.ambient import alone
from interlock.engine.checkpointer import SealedCheckpointer
from interlock.engine.exported import ExportedGraph, Redact
from interlock.engine.interrupts import Interrupts
from interlock.engine.langchain_callbacks import Callbacks, StandaloneRun, Tell
from interlock.engine.messages import NativeField, Shown, records_of
from interlock.engine.serializer import ClosedSerializer
from interlock.engine.threads import Begun, begin_turns, channel_of
from interlock.errors import PersonAwaited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["AnyCheckpointer", "AnyCompiledGraph", "AnyStore", "LangGraphGraph", "drawn"]

AnyCompiledGraph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
AnyCheckpointer: TypeAlias = BaseCheckpointSaver[Any]
AnyStore: TypeAlias = BaseStore


@dataclass(frozen=True)
class Driver:
    """What the runtime hands to a run: its own way of taking a step."""

    run_node: RunNode


class LangGraphGraph:
    """A graph as a compiled StateGraph whose nodes and edges are exactly the rows'.

    Where it is run by LangGraph alone, with no turn around it, each node takes its step by `standalone`, and callback handlers see
    what `redact` leaves of it. `outlive` are the fields that a new turn of a thread begins with; without them the graph is only
    for turns of ours.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        standalone: StandaloneRun,
        redact: Redact | None = None,
        checkpointer: AnyCheckpointer | None = None,
        store: AnyStore | None = None,
        fingerprint: str | None = None,
        outlive: Collection[str] | None = None,
        native: Mapping[str, NativeField] | None = None,
    ) -> None:
        self._graph = graph
        is_handed_out, native = outlive is not None, native or {}
        # No context_schema: LangGraph's server passes an empty context, which has none of the fields that a schema would require.
        builder = StateGraph(
            _schema(graph.name, graph.state.fields.values(), native, restarts=is_handed_out),
            input_schema=_schema(
                f"{graph.name}_input", [graph.state.fields[name] for name in graph.state.takes], native, restarts=is_handed_out
            ),
        )
        for node in graph.nodes.values():
            builder.add_node(
                node.name,
                _runnable(graph, node, standalone, native),
                input_schema=_schema(f"{node.name}_reads", [read.field for read in node.reads], native, restarts=is_handed_out),
                destinations=tuple(target or END for target in node.targets),
            )
        builder.add_edge(START, graph.entry)
        if checkpointer is not None:
            checkpointer = _closed(checkpointer, graph, fingerprint or graph.fingerprint)
        compiled = builder.compile(name=graph.name, checkpointer=checkpointer, store=store)
        if outlive is not None:
            begin_turns(compiled, graph.state.fields, outlive)
        exported = compiled if redact is None else ExportedGraph(redact=redact, native=native, **vars(compiled))
        self.compiled: AnyCompiledGraph = exported.with_config(recursion_limit=graph.max_steps + 1)

    async def run(self, given: Values, run_node: RunNode, kept: Values | None = None) -> Values:
        """Go from the entry to END, one node at a time, and return the final state."""
        begins: Any = given
        if kept or not given or not given.keys() <= set(self._graph.state.takes):
            values = self._graph.state.initial(given, kept)
            reduced = self._graph.state.reduced
            update = {name: Begun(value) if name in reduced else value for name, value in values.items()}
            begins = Command(update=update, goto=self._graph.entry)
        with alone():
            final = await self.compiled.ainvoke(begins, context=Driver(run_node))
        return cast("Values", final or {})


def drawn(graph: Graph) -> tuple[set[str], set[tuple[str, str]]]:
    """Compile a graph and return the nodes and edges that LangGraph itself says it has."""

    async def unused(_node: Node, _state: Mapping[str, Any], _tell: Tell | None, _interrupts: Interrupts) -> StepResult:
        raise AssertionError  # pragma: no cover - a graph that is drawn is not walked

    picture = LangGraphGraph(graph, standalone=unused).compiled.get_graph()
    return set(picture.nodes) - {START, END}, {(edge.source, edge.target) for edge in picture.edges}


def _schema(name: str, fields: Any, native: Mapping[str, NativeField], *, restarts: bool) -> type[Any]:
    """Make the TypedDict of these fields that LangGraph makes its channels from."""
    channels = {field.name: _annotated(field, native.get(field.name), restarts=restarts) for field in cast("list[Field]", fields)}
    make_record: Any = TypedDict  # its functional form takes any name and fields, which no type checker follows
    return make_record(name, channels, total=False)


def _closed(checkpointer: AnyCheckpointer, graph: Graph, fingerprint: str) -> AnyCheckpointer:
    """Return the checkpointer closed to all but what this graph keeps: no other classes, and no other graph's checkpoints.

    LangGraph's own serializer makes any class anew and warns; a serializer of the user's own stays as it is.
    """
    if isinstance(checkpointer.serde, JsonPlusSerializer):
        checkpointer = copy.copy(checkpointer)
        checkpointer.serde = ClosedSerializer(graph.state.classes, seal=fingerprint)
    return SealedCheckpointer(checkpointer, graph=graph.name, fingerprint=fingerprint)


def _annotated(field: Field, native: NativeField | None, *, restarts: bool) -> Any:
    """Return a field's type with its channel. Where no turn begins on a thread, LangGraph's own channel is enough, and faster."""
    return Annotated[field.hint, channel_of(field, native)] if restarts or field.reducer is not None else field.hint


def _runnable(
    graph: Graph, node: Node, standalone: StandaloneRun, native: Mapping[str, NativeField]
) -> Callable[..., Awaitable[Command[str]]]:
    """Make the function that LangGraph calls for a node."""

    async def run(state: Mapping[str, Any], runtime: Runtime[Driver], config: RunnableConfig) -> Command[str]:
        context = cast("object", runtime.context)  # a graph of the user's own that this one is inside may have another
        if isinstance(context, Driver):
            with alone():  # all that is in the state came through the contract, and from no store
                return _command(await context.run_node(node, state))
        callbacks, interrupts = Callbacks.of(config), Interrupts(config)
        try:
            with alone():
                read = graph.state.restore({name: records_of(value) for name, value in state.items()})
                ending, update = await _run_standalone(standalone, node, read, callbacks, interrupts)
                return _command((ending, _shown(update, native, callbacks)))
        except PersonAwaited:
            if interrupts.raised is None:  # of an adapter that waits for somebody by means of its own
                raise
        raise interrupts.raised

    return run


async def _run_standalone(
    standalone: StandaloneRun, node: Node, state: Mapping[str, Any], callbacks: Callbacks | None, interrupts: Interrupts
) -> StepResult:
    if callbacks is None:
        return await standalone(node, state, None, interrupts)
    async with callbacks:
        return await standalone(node, state, callbacks.hear, interrupts)


def _shown(update: Mapping[str, Any], native: Mapping[str, NativeField], callbacks: Callbacks | None) -> dict[str, Any]:
    """Make of an update what callers see of it: the message that was streamed has the id that its chunks had."""
    made = dict(update)
    for name, field in native.items():
        if name in made:
            streamed = None if callbacks is None else callbacks.streamed
            records = made[name] if streamed is None or field.sign is None else field.sign(made[name], *streamed)
            made[name] = Shown(field, records)
    return made


def _command(step: StepResult) -> Command[str]:
    ending, update = step
    return Command(update=update, goto=ending.target or END)
