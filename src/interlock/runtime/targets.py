"""What answers calls: an adapter, an adapter composed of other capabilities, or a graph. Each is a target of the call pipeline."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from typing_extensions import override

from interlock.capabilities.capability import Effect, is_capability, is_stream, marks_of
from interlock.capabilities.tools import ToolRequest
from interlock.contract import Graph
from interlock.contract.labels import Trusted, is_secret
from interlock.contract.schema import Codec, ValidationError, error_summary, strict_validator, try_validate
from interlock.contract.state import Values
from interlock.contract.type_hints import class_parameter, is_generic, resolve_hints, substitute_type, unwrap_annotated
from interlock.engine import Compiled
from interlock.errors import (
    CapabilityError,
    CapabilityResultInvalid,
    ContractViolation,
    InputError,
    InterlockError,
    Internal,
    JournalFailed,
    TurnError,
)
from interlock.runtime.call import Call, Target
from interlock.runtime.context import NodeContext
from interlock.runtime.events import Run, hide
from interlock.runtime.node_run import GraphRun
from interlock.runtime.redaction import REDACTED

if TYPE_CHECKING:
    from interlock.runtime.gate import Gate

__all__ = ["CALL_EXTRAS", "AdapterTarget", "Composed", "GraphTarget", "Method", "ReadySubgraph", "Subgraph", "declared_method", "parts_of"]

T = TypeVar("T")
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

CALL_EXTRAS: Mapping[str, Callable[[Call], Any]] = {
    "on_chunk": lambda call: call.on_chunk,
    "idempotency_key": lambda call: call.idempotency_key,
    "origins": lambda call: call.node.turn.origins,
}
"""Keyword-only parameters that an adapter's method may declare beside those of the capability, and what they are given.

`on_chunk: Callable[[str], None] | None` shows the beginning of an answer to listeners; it is None where nothing listens.
`idempotency_key: str` is the same when a resumed turn makes the call again, so that the far side can apply it once.
`origins: Origins | None` says which values of the turn are trusted, if an adapter of the gate has `tracks_origins`.
"""


class Composed:
    """An adapter with the capabilities that it uses: `Interlock(grants={Worker: Composed(worker, parts={Model: model})})`.

    As in a node, the signature is the contract: a keyword-only parameter of an adapter's method whose type is a capability is
    given that part. Calls of a part pass the gate like the node's own calls, and only while the node runs.
    """

    def __init__(self, adapter: object, *, parts: Mapping[type, object]) -> None:
        self.adapter = adapter
        self.parts = dict(parts)


class Subgraph:
    """A graph to be granted: `Interlock(grants={Planner: Subgraph(planner)})`.

    The capability has one method. Its parameters are the fields that the graph takes, its result is the field that the graph
    gives. `fixed` are fields that have the same value in every call and that the method leaves out.
    """

    def __init__(self, graph: Graph, **fixed: Any) -> None:
        self.graph = graph
        self.fixed: Values = fixed

    def __repr__(self) -> str:
        fixed = ", ".join(f"{name}={value!r}" for name, value in self.fixed.items())
        return f"{self.graph.name}({fixed})" if fixed else self.graph.name


@dataclass(frozen=True)
class ReadySubgraph:
    """A subgraph with its own gate, compiled."""

    subgraph: Subgraph
    gate: Gate
    compiled: Compiled


def parts_of(function: Callable[..., Any]) -> dict[str, type]:
    """Return the parts that an adapter's method declares, by parameter."""
    declared = resolve_hints(function).resolved
    found = {
        parameter.name: unwrap_annotated(declared.get(parameter.name))[0]
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return {name: hint for name, hint in found.items() if is_capability(hint)}


_EVENT_PARTS = 2
"""A custom event has a name and data."""


class Method:
    """One method of a capability, whichever adapter implements it."""

    def __init__(self, capability: type, name: str) -> None:
        declared = getattr(capability, name)
        parameters = dict(resolve_hints(declared).resolved)
        returned = parameters.pop("return")
        self.capability = capability.__name__
        self.capability_type = capability
        self.name = name
        self.label = f"{self.capability}.{name}"
        self.is_stream = is_stream(declared)
        marks = marks_of(declared)
        self.asks_model = marks.asks_model
        self.is_instant = marks.instant
        self.event = marks.event
        self.effect: Effect = marks.effect
        self.returns_secret = is_secret(returned)
        self.returns_trusted = Trusted in unwrap_annotated(returned)[1]
        """Whether what a call returns is no text from outside, as its Protocol says: `-> Annotated[datetime, Trusted]`."""
        self.secret_parameters = frozenset(parameter for parameter, hint in parameters.items() if is_secret(hint))
        signature = inspect.signature(declared)
        self.signature = signature.replace(parameters=list(signature.parameters.values())[1:])
        """The parameters of a call, without `self`."""
        self._hint, _ = unwrap_annotated(get_args(returned)[0] if self.is_stream else returned)
        self._result_class_parameter = class_parameter(parameters) if is_generic(self._hint) else None
        self._validate = None if self._result_class_parameter else strict_validator(self._hint)
        self._made: dict[Any, Any] = {}
        self._check_event = strict_validator(tuple[tuple(parameters.values())]) if self.event == "custom" else None

    def arguments(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        return self.signature.bind(*args, **kwargs).arguments

    def custom_event(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        """Return the name and the data of a custom event, by parameter. Raises ContractViolation for arguments of other types."""
        try:
            given = self.arguments(args, kwargs)
        except TypeError:
            given = {}
        values = tuple(given.values())
        if len(given) != _EVENT_PARTS or self._check_event is None or isinstance(try_validate(self._check_event, values), ValidationError):
            raise ContractViolation(f"'{self.label}' was called with something else than the name and the data of an event.")
        return given

    def validator(self, args: Args, kwargs: Kwargs) -> Callable[[Any], Any]:
        """Return the function that validates a result of this call, or one chunk of it."""
        return self._validate or self._for_result(strict_validator, args, kwargs)

    def codec(self, args: Args, kwargs: Kwargs) -> Codec[Any]:
        """Return the codec of this call's result, or of one chunk of it."""
        return self._for_result(Codec[Any], args, kwargs)

    def _for_result(self, make: Callable[[Any], T], args: Args, kwargs: Kwargs) -> T:
        """Make something for the type of a call's result, once. A generic call is given the class that it returns."""
        parameter, kind, hint = self._result_class_parameter, None, self._hint
        if parameter is not None:
            kind = kwargs[parameter] if parameter in kwargs else self.arguments(args, kwargs)[parameter]
            hint = substitute_type(hint, kind)
        if (make, kind) not in self._made:
            self._made[make, kind] = make(hint)
        return self._made[make, kind]

    def typed_error(self, error: BaseException) -> InterlockError:
        """Return the typed error for an exception that an adapter raised or that its result caused."""
        if isinstance(error, TurnError):
            # An adapter may raise the same instance twice, in different nodes.
            error.node = error.turn = None
        if isinstance(error, InterlockError):
            return error
        if isinstance(error, ValidationError):
            why = "" if self.returns_secret else f": {error_summary(error)}"
            return CapabilityResultInvalid(f"'{self.label}' returned something else{why}.")
        return CapabilityError(f"'{self.label}' failed: {type(error).__name__}.")


@functools.lru_cache(maxsize=1024)
def declared_method(capability: type, name: str) -> Method:
    """Return the declaration of a method. It is built once: building its validators and writers takes long."""
    return Method(capability, name)


class AdapterTarget(Target):
    """A method of an adapter.

    An adapter that is given capabilities of its own has `parts`: their proxies, by parameter. The calls that it makes are the journal
    entries, not its own.
    """

    def __init__(
        self, capability: type, name: str, function: Callable[..., Any], parts: Mapping[str, Callable[[NodeContext], object]] | None = None
    ) -> None:
        super().__init__(declared_method(capability, name))
        self._function = function
        self._tool_effect: Callable[[ToolRequest], Awaitable[Effect]] | None = None
        if self.method.event == "tool":
            self._tool_effect = getattr(getattr(function, "__self__", None), "effect_of", None)
        self.is_journaled = self.has_deadline = parts is None
        if parts is None:
            parameters = inspect.signature(function).parameters
            self._extras = tuple((extra, value) for extra, value in CALL_EXTRAS.items() if extra in parameters)
        else:
            self._extras = tuple((parameter, functools.partial(_open_part, proxy)) for parameter, proxy in parts.items())

    def open(self, call: Call) -> Any:
        if not self._extras:
            return self._function(*call.args, **call.kwargs)
        return self._function(*call.args, **call.kwargs, **{name: value(call) for name, value in self._extras})

    @override
    async def effect_of(self, call: Call) -> Effect:
        """Return the effect of the tool that is called, where the adapter knows it; otherwise that of the method."""
        request = _tool_request(call)
        return self.method.effect if self._tool_effect is None or request is None else await self._tool_effect(request)

    def start_event(self, call: Call) -> Run | None:
        """Emit the start event; the custom event of a method whose calls are events themselves."""
        method, run, args, kwargs = self.method, call.node.run, call.args, call.kwargs
        if method.event == "custom":
            given = method.custom_event(args, kwargs)
            if run is not None:
                name, data = (REDACTED if parameter in method.secret_parameters else value for parameter, value in given.items())
                run.custom(name, {"data": data} if data == REDACTED else data)
            return None
        started = None if run is None else run.call(method.event, method.label)
        if started is None:
            return None
        if method.secret_parameters:
            given = method.arguments(args, kwargs)
            return started.start([REDACTED if name in method.secret_parameters else value for name, value in given.items()])
        if method.event == "tool":
            request = _tool_request(call)
            if request is not None:
                return started.start(request.args, tool=request.tool)
        return started.start([*args, *kwargs.values()])

    def end_event(self, call: Call, run: Run) -> None:
        method, chunks = self.method, call.chunks or []
        if method.is_stream:
            run.end_stream([] if method.returns_secret else chunks)
        else:
            run.end(REDACTED if method.returns_secret else chunks[0])


def _tool_request(call: Call) -> ToolRequest | None:
    return next((value for value in (*call.args, *call.kwargs.values()) if isinstance(value, ToolRequest)), None)


def _open_part(proxy: Callable[[NodeContext], object], call: Call) -> object:
    return proxy(call.node)


class GraphTarget(Target):
    """A graph behind a capability's method. The calls that its nodes make are the journal entries, not its own."""

    is_journaled = False
    has_deadline = False
    is_validated = False

    def __init__(self, capability: type, name: str, ready: ReadySubgraph) -> None:
        super().__init__(declared_method(capability, name))
        self._graph = graph = ready.subgraph.graph
        self._ready = ready
        self._metadata = {"graph": graph.name, "capability": self.method.label}

    async def open(self, call: Call) -> Any:
        """Run the graph inside the node that calls."""
        given, graph_run = call.prepared or self._prepare(call)
        if call.run is not None:
            graph_run.emit_inside(call.run)
        try:
            return self._result(await self._ready.compiled.run(given, graph_run.run_node))
        except InterlockError as error:
            journal = call.node.turn.journal
            if journal is not None and error is journal.failure:
                raise JournalFailed(error) from None
            raise
        except Exception as error:
            raise Internal(f"The engine failed: {type(error).__name__}: {error}") from error

    def start_event(self, call: Call) -> Run | None:
        if call.node.run is None:  # pragma: no cover - a turn without a listener, and a method that is marked as a custom event
            return None
        call.prepared = given, _ = self._prepare(call)
        state = self._graph.state
        return call.node.run.inner(self._graph.name, self._metadata).start(hide(given, state.secret))

    def _prepare(self, call: Call) -> tuple[Values, GraphRun]:
        """Return the input of the graph and a new run of it. Creating the run redacts which of the given values are secret."""
        given = self._given(call.args, call.kwargs)
        return given, GraphRun(self._graph, self._ready.gate, call.node.turn, given, inside=call.node.node)

    def end_event(self, call: Call, run: Run) -> None:
        state = self._graph.state
        for result in call.chunks or ():
            run.end(hide({self._graph.gives or "": result}, state.secret))

    def _given(self, args: Args, kwargs: Kwargs) -> Values:
        try:
            bound = self.method.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return self._graph.state.parse_input({**self._ready.subgraph.fixed, **bound.arguments}, inside=True)
        except InputError as error:
            wrong = error.message
        except TypeError as error:
            wrong = f"It does not fit: {error}."
        # Raised here and not in the except block, so that `__context__` does not carry the rejected value.
        raise ContractViolation(f"'{self.method.label}' was called with something else. {wrong}")

    def _result(self, final: Values) -> Any:
        gives = self._graph.gives or ""
        result = final.get(gives)
        if result is not None:
            # It was validated against the field's type, which differs from the method's only in that it may allow None.
            return result
        try:
            return self.method.validator((), {})(self._graph.state.with_defaults(final).get(gives))
        except ValidationError as error:
            why = "" if self._graph.gives in self._graph.state.secret else f": {error_summary(error)}"
        raise CapabilityResultInvalid(f"'{self.method.label}' returned something else{why}.")
