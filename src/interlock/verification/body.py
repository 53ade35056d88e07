"""What an interpretation of a body has in hand: states, the points that decide, the calls that were made, and the tables that only grow."""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Any

from interlock.errors import InterlockError
from interlock.verification.sources import NOTHING, Sources
from interlock.verification.values import ANY_KIND, NONE_YET, Cell, Const, Kinds, Value, join

__all__ = [
    "EAGER", "MANY", "Ambient", "Call", "Catcher", "Counts", "Fact", "Frame", "LibraryError", "Point", "Raised", "Returned", "State",
    "Tables", "Unreadable", "has_part", "is_project", "keeps_state", "merge", "outer_names", "parse", "shared_names", "source_of",
]  # fmt: skip

MANY = 1_000
"""A number of calls that is not bounded."""

Counts = dict[str, tuple[int, int]]
"""How often each method of a capability is called, at least and at most."""


class Unreadable(Exception):
    """A body that the interpreter does not read, with the reason."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


@dataclass(frozen=True)
class Fact:
    """What is known of the value at a path, on one way through the graph: its kinds, and its constants if they are few."""

    kinds: Kinds = ANY_KIND
    consts: frozenset[Const] | None = None


class Point:
    """A place where a body chooses: the sources that decide there."""

    __slots__ = ("key", "line", "sources")

    def __init__(self, key: object, line: int) -> None:
        self.key = key
        self.line = line
        self.sources: Sources = NOTHING


@dataclass
class State:
    """What is known at a place of a body."""

    variables: dict[str, Value]
    points: frozenset[Point] = frozenset()
    calls: Counts = field(default_factory=dict[str, tuple[int, int]])
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])

    def copy(self) -> State:
        return State(dict(self.variables), self.points, dict(self.calls), dict(self.facts))

    @property
    def control(self) -> Sources:
        """What decides that this place is reached."""
        found = NOTHING
        for point in self.points:
            found |= point.sources
        return found

    def become(self, other: State) -> None:
        """Take over all that another state knows."""
        self.variables, self.points, self.calls, self.facts = other.variables, other.points, other.calls, other.facts


def merge(states: Iterable[State], chosen_by: Sources) -> State | None:
    """Merge states of one place into one. Variables that differ depend on what chose between them."""
    merged: State | None = None
    for state in states:
        if merged is None:
            merged = state.copy()
            continue
        for name in {**merged.variables, **state.variables}:
            one, other = merged.variables.get(name, NONE_YET), state.variables.get(name, NONE_YET)
            if one is not other:
                merged.variables[name] = join(one, other, chosen_by) if one != other else one
        merged.calls = _hull(merged.calls, state.calls)
        merged.points |= state.points
        common = merged.facts.keys() & state.facts.keys()
        facts = {name: _either(merged.facts[name], state.facts[name]) for name in common}
        merged.facts = {name: fact for name, fact in facts.items() if fact != Fact()}
    return merged


def _hull(one: Counts, other: Counts) -> Counts:
    found: Counts = {}
    for name in {**one, **other}:
        (least, most), (fewest, greatest) = one.get(name, (0, 0)), other.get(name, (0, 0))
        found[name] = min(least, fewest), max(most, greatest)
    return found


def _either(one: Fact, other: Fact) -> Fact:
    consts = None if one.consts is None or other.consts is None else one.consts | other.consts
    return Fact(one.kinds | other.kinds, consts)


@dataclass(frozen=True)
class Call:
    """A call of a capability's method: its arguments, and what decides that it is made."""

    capability: type
    method: str
    line: int
    arguments: Mapping[str, Value] = field(hash=False)
    control: Sources
    facts: Mapping[str, Fact] = field(hash=False)
    before: Mapping[str, tuple[int, int]] = field(hash=False)

    @property
    def name(self) -> str:
        return f"{self.capability.__name__}.{self.method}"


@dataclass(frozen=True)
class Raised:
    """An error that a body raises: what it is made of and what decides that it is raised."""

    line: int
    sources: Sources


@dataclass(frozen=True)
class Ambient:
    """Something outside of the turn that a body reaches without a capability."""

    what: str
    line: int


@dataclass
class Returned:
    """One way in which a body ends."""

    value: Value
    state: State
    line: int


@dataclass
class Catcher:
    """A `try` that is being run: its point, the classes that it catches, and the errors that can arrive."""

    point: Point
    catches: tuple[type[BaseException], ...]
    error: Value = NONE_YET
    calls: Counts | None = None
    """The calls that were made when an error arrives."""

    def may_catch(self, raised: type[BaseException] | None) -> bool:
        """Return whether an error of this class can be caught here. Capabilities can raise any error (None)."""
        if raised is None:
            return True
        if raised is LibraryError:
            return any(not issubclass(handled, InterlockError) for handled in self.catches)
        return any(issubclass(raised, handled) or issubclass(handled, raised) for handled in self.catches)


@dataclass
class Frame:
    """A function that is being run: how it has ended so far, and the variables that other functions inside it can see."""

    function: ast.AST
    key: tuple[object, ...]
    scope: Mapping[str, Any]
    module: str
    shared: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    """The variables of other functions that it assigns."""
    parent: Frame | None = None
    returned: list[Returned] = field(default_factory=list[Returned])
    broken: list[State] = field(default_factory=list[State])
    continued: list[State] = field(default_factory=list[State])
    leaves: int = 0
    """How often control has left its block so far: by return, break, continue, or an error that is caught."""
    exits: int = 0
    """How often that was by return, or by an error that is caught."""
    logs: list[dict[str, Value]] = field(default_factory=list[dict[str, Value]])
    """For each `try` that is being run, every value that its variables have had."""
    yields: Cell | None = None


class Tables:
    """What is known of a body whatever the order of its statements: it only grows, and the body is read until nothing grows."""

    def __init__(self) -> None:
        self.cells: dict[object, Cell] = {}
        self.points: dict[object, Point] = {}
        self.grown = False
        self.calls: list[Call] = []
        self.raised: list[Raised] = []
        self.ambient: list[Ambient] = []
        self.guards: dict[str, Callable[..., Any]] = {}
        self.unread: set[str] = set()
        self.read: dict[str, types.FunctionType] = {}
        """The functions of the project that were read."""
        self.catchers: list[Catcher] = []
        self.later: set[Cell] = set()
        """Coroutines that are not awaited at once: what decides that they are awaited is the size of their cells."""
        self.places: dict[object, int] = {}
        self.closures: dict[object, Any] = {}
        self.recursive: set[object] = set()
        """The frames of functions that call themselves."""
        self.changed: dict[str, Sources] = {}
        """The fields and results that the body changes in place, and what it puts into them."""

    def begin(self) -> None:
        """Forget what was seen in the last run, and keep what has grown."""
        self.grown = False
        self.calls, self.raised, self.ambient, self.catchers = [], [], [], []

    def _grow(self) -> None:
        self.grown = True

    def change(self, root: str, sources: Sources) -> None:
        if not sources <= self.changed.get(root, NOTHING):
            self.changed[root] = self.changed.get(root, NOTHING) | sources
            self._grow()

    def expand(self, sources: Sources) -> Sources:
        """Return the sources, and what was put into those of them that the body changes in place."""
        found, queue = set(sources), list(sources)
        for source in queue:
            queue += (new := self.changed.get(source.root, NOTHING) - found)
            found |= new
        return frozenset(found)

    def instance(self, *key: object) -> int:
        """Return the number of a place where a capability is called."""
        return self.places.setdefault(key, len(self.places) + 1)

    def cell(self, *key: object) -> Cell:
        return self.cells.setdefault(key, Cell(self._grow))

    def point(self, line: int, sources: Sources, *key: object) -> Point:
        """Return the point of a place, and add what decides there."""
        point = self.points.setdefault(key, Point(key, line))
        if not sources <= point.sources:
            point.sources |= sources
            self._grow()
        return point

    def raises(self, sources: Sources, error: Value, raised: type[BaseException] | None, state: State) -> bool:
        """Note that an error can be raised here, of a class if it is known. Return whether a `try` of the body can catch it."""
        caught = False
        for catcher in reversed(self.catchers):
            if not catcher.may_catch(raised):
                continue
            caught = True
            outer = state.control | sources
            if not outer <= catcher.point.sources:
                catcher.point.sources |= outer
                self._grow()
            catcher.error = join(catcher.error, error)
            catcher.calls = dict(state.calls) if catcher.calls is None else _hull(catcher.calls, state.calls)
            if raised is not None and raised is not LibraryError and any(issubclass(raised, handled) for handled in catcher.catches):
                break
        return caught


class LibraryError(Exception):
    """Stands for every error that an operation of Python or of a library can raise. None of them is an error of Interlock."""


_LIBRARY = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def is_project(function: types.FunctionType, package: str) -> bool:
    """Return whether a function belongs to the project of a node, and not to a library."""
    top = (function.__module__ or "").partition(".")[0]
    if top == package:
        return True
    if top in {"interlock", "builtins"} or top in sys.stdlib_module_names:
        return False
    file = function.__code__.co_filename
    return not file.startswith(_LIBRARY) and "site-packages" not in FilePath(file).parts and file != "<string>"


@cache
def source_of(function: types.FunctionType) -> tuple[str, int]:
    """Return the source of a function, and its first line."""
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError) as error:
        raise Unreadable(f"the source of '{function.__name__}' cannot be found", code.co_firstlineno) from error
    return textwrap.dedent("".join(lines)), first


@cache
def parse(function: types.FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda:
    """Return the syntax tree of a function, with the line numbers of its file."""
    code = function.__code__
    text, first = source_of(function)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise Unreadable(f"the source of '{function.__name__}' cannot be parsed by itself", code.co_firstlineno) from error
    ast.increment_lineno(tree, first - 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function.__name__:
            return node
    raise Unreadable(f"the source of '{function.__name__}' is not a function", code.co_firstlineno)


_SCALARS = (
    str,
    int,
    float,
    bool,
    bytes,
    tuple,
    frozenset,
    type(None),
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
)


_CHANGEABLE: frozenset[object] = frozenset({list, dict, set})


@cache
def keeps_state(function: types.FunctionType, package: str, seen: frozenset[object] = frozenset()) -> bool:
    """Return whether a function that is not read could keep something between turns: in a name, an attribute or an object of a module."""
    if function in seen:
        return False
    try:
        tree = parse(function)
    except Unreadable:
        return True
    made = tree.args.args[0].arg if function.__name__ in {"__init__", "__post_init__"} and tree.args.args else None
    for part in ast.walk(tree):
        if isinstance(part, ast.Global) or (
            isinstance(part, ast.Nonlocal) and not set(function.__code__.co_freevars).isdisjoint(part.names)
        ):
            return True
        stored = isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load)
        if isinstance(part, ast.Attribute) and stored and not (isinstance(part.value, ast.Name) and part.value.id == made):
            return True
        value: Any = function.__globals__.get(part.id) if isinstance(part, ast.Name) else None
        if isinstance(value, types.FunctionType) and is_project(value, package):
            if keeps_state(value, package, seen | {function}):
                return True
        elif not isinstance(value, _SCALARS) and not callable(value) and (type(value) in _CHANGEABLE or hasattr(value, "__dict__")):
            return True
    return False


EAGER = frozenset("tuple list set frozenset dict any all sum max min sorted len str join gather extend update union".split())  # noqa: SIM905
"""Functions that consume a generator before they return."""


@cache
def outer_names(function: ast.AST) -> frozenset[str]:
    """Return the variables that a function declares `nonlocal`."""
    return frozenset(name for part in ast.walk(function) if isinstance(part, ast.Nonlocal) for name in part.names)


@cache
def has_part(tree: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Return whether a part of a body is of one of these kinds."""
    return any(isinstance(part, kinds) for part in ast.walk(tree))


@cache
def shared_names(function: ast.AST) -> frozenset[str]:
    """Return the variables of a function that functions, lambdas and lazy generators inside it can see."""
    eager: set[int] = set()
    for part in ast.walk(function):
        if isinstance(part, ast.Call):
            name = part.func.id if isinstance(part.func, ast.Name) else part.func.attr if isinstance(part.func, ast.Attribute) else ""
            if name in EAGER:
                eager |= {id(one.value if isinstance(one, ast.Starred) else one) for one in part.args}
    found: set[str] = set()
    for part in ast.walk(function):
        inner = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and part is not function
        if inner or (isinstance(part, ast.GeneratorExp) and id(part) not in eager):
            found |= {name.id for name in ast.walk(part) if isinstance(name, ast.Name)}
    return frozenset(found)
