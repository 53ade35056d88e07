"""The parts that expressions, calls and statements of the interpreter share: variables, constants, paths, points and conditions."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast, get_args, get_origin

from interlock.contract.type_hints import alternatives
from interlock.verification.body import Fact, Frame, LibraryError, State, Tables, Unreadable
from interlock.verification.sources import NOTHING, Level, Path, Source, Sources, hint_classes, is_choice
from interlock.verification.values import ANY_KIND, FULL, NONE_YET, UNKNOWN, Const, Value, join, kind_of

__all__ = ["BoundMethod", "CapabilityMethod", "Closure", "Reader", "ambient", "computed", "scalar", "unreadable", "wrap"]


@dataclass(frozen=True)
class CapabilityMethod:
    """A method of a capability that a body has in hand."""

    capability: type
    name: str


@dataclass(frozen=True)
class BoundMethod:
    """A method, by its name or as a function, and the value that it belongs to."""

    owner: Value
    name: str
    function: types.FunctionType | None = None


@dataclass(frozen=True, eq=False)
class Closure:
    """A function that a body defines, with the frame whose variables it can see."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    defaults: Mapping[str, Value]


def computed(sources: Sources, *parts: Value) -> Value:
    """Return a value that is computed from sources and from values, in a way that is not known."""
    sources = sources.union(*(part.sources for part in parts))
    if not any(part.attrs or part.cells or part.handles or part.functions or part.classes for part in parts):
        return Value(made=sources, shape=sources, parts_of=frozenset(one for part in parts for one in part.changeable))
    reached = [inner for part in parts for inner in part.reach()]
    return Value(
        made=sources,
        shape=sources,
        handles=frozenset(one for value in reached for one in value.handles),
        functions=frozenset(one for value in reached for one in value.functions),
        classes=frozenset(one for value in reached for one in value.classes),
        cells=frozenset(one for value in reached for one in value.cells),
        parts_of=frozenset(one for value in reached for one in value.changeable),
    )


def scalar(value: Value) -> Value:
    """Return a computed value that is a text or a number: it is no part of what it is computed from."""
    return Value(made=value.made, shape=value.shape, consts=value.consts, kinds=value.kinds)


def wrap(value: Any) -> Value:
    """Return the abstract value of an object of the program: of a module, a default, or a global name."""
    kind = cast("type[Any]", type(value))
    if kind in {str, int, bool, type(None)}:
        return _plain(kind, value)
    if inspect.isroutine(value) or inspect.isclass(value):
        return Value(functions=frozenset({value}), consts=frozenset({Const(value)}), kinds=frozenset({"full"}), known=True)
    return Value(consts=frozenset({Const(value)}), kinds=frozenset({kind_of(value)}), known=True)


@cache
def _plain(kind: type, value: Any) -> Value:
    del kind  # True is 1, and not the same constant.
    return Value(consts=frozenset({Const(value)}), kinds=frozenset({kind_of(value)}), known=True)


_FIXED_KINDS = (str, int, float, bool, bytes, tuple, frozenset, type(None))


@cache
def _is_fixed(hint: Any) -> bool:
    """Return whether the kind of a value of this type cannot change while a body runs."""
    if hint is None:
        return False
    for member in alternatives(hint):
        kind = get_origin(member) or member
        if kind is Literal or kind in _FIXED_KINDS:
            continue
        changes = not inspect.isclass(kind) or kind.__module__ == "builtins" or hasattr(kind, "__len__") or hasattr(kind, "__bool__")
        if changes and not (inspect.isclass(kind) and issubclass(kind, enum.Enum)):
            return False
    return True


class Reader:
    """Reads a body. Subclasses add what they read: calls, expressions, statements."""

    def __init__(self, tables: Tables, package: str, *, forking: bool) -> None:
        self.tables = tables
        self.package = package
        self.forking = forking
        """Whether ways through the body are followed one by one, with what is known of the fields, or all together."""
        self.follows = forking
        self.loops = 0
        self.awaited: set[int] = set()
        """The calls that are awaited at once."""
        self.iterating: list[Value] = []
        """What the loops that are being run iterate over."""
        self.stack: list[types.CodeType] = []
        self.running: dict[types.CodeType, tuple[object, ...]] = {}
        """The functions of the project that are being run, each with the key of its frame."""
        self.steps = 0
        self.memo: dict[object, Value] = {}
        """Results of functions without capabilities, where paths are followed one by one: they are the same on each."""

    def evaluate(self, node: ast.expr, state: State, frame: Frame) -> Value:
        raise NotImplementedError

    def execute(self, body: list[ast.stmt], states: list[State], frame: Frame) -> list[State]:
        raise NotImplementedError

    # Paths and facts

    def at(self, path: Path, state: State) -> Value:
        """Return the value at a path, with what is known of it here."""
        fact = state.facts.get(self.key(path))
        if fact is not None:
            return Value(origins=frozenset({path}), consts=fact.consts, kinds=fact.kinds)
        consts, kinds = None, ANY_KIND
        if path.hint is not None and not path.is_error:
            consts = _choices(path.hint)
            kinds = _kinds(path.hint) if consts is None else frozenset(kind_of(one.value) for one in consts)
        return Value(origins=frozenset({path}), consts=consts, kinds=kinds)

    def key(self, path: Path) -> str:
        return f"{path.name}#{path.instance}" if path.instance else path.name

    def learn(self, value: Value, fact: Fact, state: State) -> None:
        """Remember what a condition has shown of the value at a path."""
        if value.presence_of is not None:
            path = value.presence_of
        elif len(value.origins) == 1 and not value.made and not value.shape and not value.attrs and not value.cells:
            (path,) = value.origins
            if path.instance < 0 or "[]" in path.parts or not _is_fixed(path.hint):
                return
        else:
            return
        known = state.facts.get(self.key(path)) or Fact(value.kinds, value.consts)
        if value.presence_of is not None:
            kinds = frozenset({"full"}) if fact.kinds == FULL else frozenset({"none", "empty"})
            state.facts[self.key(path)] = Fact(kinds, None)
            return
        consts = fact.consts if fact.consts is not None else known.consts
        kinds = known.kinds & fact.kinds
        if consts is not None:
            consts = frozenset(one for one in consts if kind_of(one.value) in kinds)
            kinds = frozenset(kind_of(one.value) for one in consts)
        state.facts[self.key(path)] = Fact(kinds, consts)

    # Variables

    def load(self, name: str, state: State, frame: Frame, node: ast.AST) -> Value:
        if name in state.variables and name not in frame.shared and name not in frame.outer:
            value = state.variables[name]
            self.fails(value.shape, state)
            return value
        owner: Frame | None = frame
        while owner is not None:
            cell = self.tables.cells.get((owner.key, "variable", name))
            if cell is not None:
                value = cell.content.under(cell.size) if cell.content != NONE_YET else computed(cell.size)
                self.fails(value.shape, state)
                return value
            owner = owner.parent
        if name in frame.scope:
            return self.real(frame.scope[name], name, node)
        if hasattr(builtins, name):
            return wrap(getattr(builtins, name))
        self.fails(NOTHING, state)
        return UNKNOWN

    def real(self, value: Any, name: str, node: ast.AST) -> Value:
        del name, node
        return wrap(value)

    def store(self, name: str, value: Value, state: State, frame: Frame) -> None:
        value = value.under(state.control)
        for log in frame.logs:
            log[name] = join(log.get(name, NONE_YET), value)
        if name in frame.shared or name in frame.outer:
            owner: Frame | None = frame if name in frame.shared else frame.parent
            while owner is not None and (owner.key, "variable", name) not in self.tables.cells and name in frame.outer:
                owner = owner.parent
            self.tables.cell((owner or frame).key, "variable", name).put(value, state.control)
            state.variables[name] = UNKNOWN
            return
        state.variables[name] = value

    # Errors and points

    def fails(self, sources: Sources, state: State) -> None:
        """Note that an operation on values of these sources can raise an error of Python or of a library."""
        if self.tables.catchers:
            self.tables.raises(sources, computed(sources), LibraryError, state)

    def point(self, node: ast.AST, sources: Sources, frame: Frame, what: str, state: State) -> None:
        """Go on below a point where these sources decide."""
        found = self.tables.point(getattr(node, "lineno", 0), sources, frame.key, id(node), what)
        state.points |= {found}

    # Conditions

    def truth(self, value: Value) -> tuple[bool, bool]:
        """Return whether a value can be true, and whether it can be false."""
        if value.consts is not None and value.consts:
            kinds = frozenset(kind_of(one.value) for one in value.consts)
            return "full" in kinds, kinds != FULL
        return "full" in value.kinds, bool(value.kinds - {"full"})

    def truth_sources(self, value: Value) -> Sources:
        """Return what decides whether a value is true."""
        classes = {*value.classes, *(one for origin in value.origins for one in hint_classes(origin.hint) if _says_itself(one))}
        if any(hasattr(one, "__len__") or hasattr(one, "__bool__") for one in classes if one is not tuple):
            return value.sources
        return value.choosing


@cache
def _says_itself(kind: type) -> bool:
    """Return whether a class has code of its own for whether it is true."""
    return any(isinstance(inspect.getattr_static(kind, name, None), types.FunctionType) for name in ("__bool__", "__len__"))


@cache
def _choices(hint: Any) -> frozenset[Const] | None:
    """Return the values of a type that has finitely many; None for all others, and for enums."""
    if not is_choice(hint):
        return None
    found: set[Const] = set()
    for member in alternatives(hint):
        if get_origin(member) is Literal:
            found |= {Const(one) for one in get_args(member)}
        elif member is bool:
            found |= {Const(False), Const(True)}
        elif member is type(None):
            found.add(Const(None))
        else:
            return None
    return frozenset(found)


@cache
def _kinds(hint: Any) -> frozenset[str]:
    members = alternatives(hint)
    kinds = {"none"} if type(None) in members or Any in members or object in members else set[str]()
    for member in members:
        kind = get_origin(member) or member
        if kind is type(None):
            continue
        always = inspect.isclass(kind) and kind.__module__ != "builtins" and not hasattr(kind, "__len__") and not hasattr(kind, "__bool__")
        kinds |= {"full"} if always and not issubclass(kind, enum.Enum) else {"full", "empty"}
    return frozenset(kinds) if len(hint_classes(hint)) + (type(None) in members) >= len(members) else ANY_KIND


def ambient(name: str) -> Value:
    """Return what a body got from outside without a capability."""
    source = Source(name, Level.TEXT, root=name)
    return Value(made=frozenset({source}), shape=frozenset({source}))


def unreadable(why: str, node: ast.AST) -> Unreadable:
    """Return the error for a part of a body that is not read."""
    return Unreadable(why, getattr(node, "lineno", 0))
