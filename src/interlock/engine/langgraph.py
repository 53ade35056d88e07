"""The LangGraph engine: the rows as a compiled StateGraph. Only this module and `exported` use LangGraph's graph API.

LangGraph allows a node more than its contract does. These are the guards:
- A node may write any channel, and unknown keys are dropped silently. Here the update is built from the validated outcome.
- A node may go to any other node by a Command of its own. Here only the engine creates Commands, and the only static edge is that
  from START.
- A node sees the whole state if one of its annotations does not resolve. Here the schema of what it reads is always passed.
- A node reaches the store, the config and the whole state through ambient functions. They are hidden while it runs (`ambient`).
- A value that looks like an Overwrite marker bypasses a reducer. A field with a reducer has a channel that ignores markers.
- Tracers and callback handlers see every state. A turn has none, and an exported graph redacts what they see (`exported`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.channels import BinaryOperatorAggregate
from langgraph.checkpoint.base import BaseCheckpointSaver
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

__all__ = ["AnyCheckpointer", "AnyCompiledGraph", "AnyStore", "LangGraphGraph", "NodeFunction", "build_state_graph", "drawn", "to_command"]

AnyCompiledGraph: TypeAlias = CompiledStateGraph[Any, Any, Any, Any]
AnyCheckpointer: TypeAlias = BaseCheckpointSaver[Any]
AnyStore: TypeAlias = BaseStore
NodeFunction: TypeAlias = Callable[..., Awaitable[Command[str]]]
Annotate: TypeAlias = Callable[[Field], Any]
"""Return the annotation of a field, from which LangGraph creates its channel."""


class LangGraphGraph:
    """A graph as a compiled StateGraph, for turns. Its nodes and edges are exactly those of the rows."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        builder = build_state_graph(graph, _run_in_turn, _annotate, takes=graph.state.fields)
        self.compiled = builder.compile(name=graph.name).with_config(recursion_limit=graph.max_steps + 1)

    async def run(self, given: Values, run_node: RunNode, persisted: Values | None = None) -> Values:
        state = self._graph.state
        values = state.initial(given, persisted)
        for name in state.reduced & values.keys():
            values[name] = _Initial(values[name])
        # LangGraph refuses an empty input.
        start: Any = values or Command(goto=self._graph.entry)
        final: Values = {}
        with alone():
            # Not `ainvoke`: it streams the updates of each step too, to find interrupts, which a turn does not have.
            async for final in self.compiled.astream(start, context=run_node, stream_mode="values"):  # noqa: B007 - the last one counts
                pass
        return final


def build_state_graph(
    graph: Graph, function_of: Callable[[Node], NodeFunction], annotate: Annotate, *, takes: Iterable[str]
) -> StateGraph[Any, Any, Any, Any]:
    """Build the StateGraph of a graph. `function_of` returns the function that LangGraph calls for a node."""
    annotations = {name: annotate(field) for name, field in graph.state.fields.items()}

    def schema(name: str, fields: Iterable[str]) -> Any:
        # No type checker follows the functional form with computed fields.
        functional: Any = TypedDict
        return functional(name, {field: annotations[field] for field in fields}, total=False)

    # No context_schema: LangGraph's server passes an empty context, which has none of the fields that a schema would require.
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema(graph.name, annotations), input_schema=schema(f"{graph.name}_input", takes))
    for node in graph.nodes.values():
        builder.add_node(
            node.name,
            function_of(node),
            input_schema=schema(f"{node.name}_reads", (read.field.name for read in node.reads)),
            destinations=tuple(target or END for target in node.targets),
        )
    builder.add_edge(START, graph.entry)
    return builder


def drawn(graph: Graph) -> tuple[set[str], set[tuple[str, str]]]:
    """Compile a graph and return the nodes and edges that LangGraph draws for it."""
    picture = LangGraphGraph(graph).compiled.get_graph()
    return set(picture.nodes) - {START, END}, {(edge.source, edge.target) for edge in picture.edges}


def to_command(step: StepResult) -> Command[str]:
    """Return what LangGraph has to do after a node: which fields to write and which node to run next."""
    transition, update = step
    return Command(update=update, goto=transition.target or END)


class _Initial:
    """The value that a field with a reducer starts a turn with."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _ReducedField(BinaryOperatorAggregate[Any]):
    """The channel of a field with a reducer. The reducer gets every value that a node writes, also one that looks like a marker."""

    def update(self, values: Sequence[Any]) -> bool:
        for value in values:
            if type(value) is _Initial:
                self.value = value.value
            else:
                self.value = self.operator(self.value, value) if self.is_available() else value
        return bool(values)


def _annotate(field: Field) -> Any:
    """Return a field's type, with a channel of ours where LangGraph's own would not do. LangGraph's own is faster."""
    return field.hint if field.reducer is None else Annotated[field.hint, _ReducedField(field.hint, field.reduce)]


def _run_in_turn(node: Node) -> NodeFunction:
    async def run(state: Mapping[str, Any], runtime: Runtime[Any]) -> Command[str]:
        # The rest of what `alone` does is inherited from the turn.
        token = var_child_runnable_config.set(None)
        try:
            return to_command(await runtime.context(node, state))
        finally:
            var_child_runnable_config.reset(token)

    return run
