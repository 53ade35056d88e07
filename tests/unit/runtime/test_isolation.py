from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, node
from interlock.engine import EngineName


@dataclass
class Record:
    tags: list[str]
    name: str = "Ada"


@dataclass(frozen=True)
class Frozen:
    tags: list[str]


class Model(BaseModel):
    tags: list[str]
    name: str = "Ada"


@dataclass
class Holder:
    model: Model


class Entry(TypedDict):
    tags: list[str]


@dataclass
class Plain:
    """It can be changed, though nothing in it can."""

    name: str


@dataclass(unsafe_hash=True)
class Badge:
    """It can be put into a set, and be changed there."""

    name: str
    notes: list[str] = field(default_factory=list[str], hash=False)


@dataclass(frozen=True)
class Kind:
    """A type of field, a value of it, and a way to change that value in place."""

    hint: Any
    make: Callable[[], Any]
    spoil: Callable[[Any], object]


def rename(value: Any) -> None:
    value.name = "spoilt"


KINDS = {
    "list": Kind(list[str], lambda: ["a"], lambda value: value.append("spoilt")),
    "dict": Kind(dict[str, int], lambda: {"a": 1}, lambda value: value.update(a=2)),
    "set": Kind(set[str], lambda: {"a"}, lambda value: value.add("spoilt")),
    "list in a list": Kind(list[list[str]], lambda: [["a"]], lambda value: value[0].append("spoilt")),
    "list in a dict": Kind(dict[str, list[str]], lambda: {"a": []}, lambda value: value["a"].append("spoilt")),
    "list in a tuple": Kind(tuple[list[str], ...], lambda: (["a"],), lambda value: value[0].append("spoilt")),
    "record": Kind(Record, lambda: Record(["a"]), rename),
    "record of texts": Kind(Plain, lambda: Plain("Ada"), rename),
    "records in a list": Kind(list[Plain], lambda: [Plain("Ada")], lambda value: rename(value[0])),
    "list in a record": Kind(Record, lambda: Record(["a"]), lambda value: value.tags.append("spoilt")),
    "list in a frozen record": Kind(Frozen, lambda: Frozen(["a"]), lambda value: value.tags.append("spoilt")),
    "model": Kind(Model, lambda: Model(tags=["a"]), rename),
    "list in a model": Kind(Model, lambda: Model(tags=["a"]), lambda value: value.tags.append("spoilt")),
    "models in a dict": Kind(dict[str, Model], lambda: {"a": Model(tags=[])}, lambda value: rename(value["a"])),
    "model in a record": Kind(Holder, lambda: Holder(Model(tags=["a"])), lambda value: rename(value.model)),
    "list in a typed dict": Kind(Entry, lambda: {"tags": ["a"]}, lambda value: value["tags"].append("spoilt")),
    "optional": Kind(list[str] | None, lambda: ["a"], lambda value: value.append("spoilt")),
    "anything": Kind(Any, lambda: {"deep": [["a"]]}, lambda value: value["deep"][0].append("spoilt")),
    "list of anything": Kind(list[Any], lambda: [["a"]], lambda value: value[0].append("spoilt")),
    "set of records": Kind(set[Badge], lambda: {Badge("a")}, lambda value: next(iter(value)).notes.append("spoilt")),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


class Done(Outcome):
    done: bool = True


class Drawer(Capability, Protocol):
    """Keeps hold of an object, and spoils it when it is told to."""

    async def keep(self, thing: Any) -> None: ...
    async def spoil(self) -> None: ...


class RealDrawer:
    def __init__(self, kind: Kind, thing: Any = None) -> None:
        self._kind = kind
        self._thing = thing

    async def keep(self, thing: Any) -> None:
        self._thing = thing

    async def spoil(self) -> None:
        self._kind.spoil(self._thing)


async def spoil_what_was_kept(*, drawer: Drawer) -> Done:
    await drawer.spoil()
    return Done()


async def finish() -> Done:
    return Done()


def state_of(kind: Kind) -> type[Any]:
    make_record: Any = TypedDict
    return make_record("Box", {"value": kind.hint, "done": bool}, total=False)


def mutating(kind: Kind) -> Graph:
    async def mutate(value: Any) -> Done:
        kind.spoil(value)
        return Done()

    mutate.__annotations__ = {"value": kind.hint, "return": Done}
    return Graph("box", state=state_of(kind), entry=mutate, nodes=[node(mutate, goes={Done: finish}), node(finish, goes={Done: END})])


def keeping(kind: Kind) -> Graph:
    filled: Any = type("Filled", (Outcome,), {"__annotations__": {"value": kind.hint}, "__module__": __name__})

    async def fill(*, drawer: Drawer) -> Any:
        value = kind.make()
        await drawer.keep(value)
        return filled(value=value)

    fill.__annotations__ = {"drawer": Drawer, "return": filled}
    return Graph(
        "box",
        state=state_of(kind),
        entry=fill,
        nodes=[node(fill, goes={filled: spoil_what_was_kept}), node(spoil_what_was_kept, goes={Done: END})],
    )


def spoilt_by_the_caller(kind: Kind) -> Graph:
    return Graph("box", state=state_of(kind), entry=spoil_what_was_kept, nodes=[node(spoil_what_was_kept, goes={Done: END})])


async def test_a_node_that_mutates_its_input_changes_nothing(engine: EngineName, kind: Kind):
    result = await Interlock(Settings(engine=engine)).run(mutating(kind), {"value": kind.make()})
    assert result.error is None
    assert result.state == {"value": kind.make(), "done": True}


async def test_a_node_that_mutates_what_it_returned_changes_nothing(engine: EngineName, kind: Kind):
    result = await Interlock(Settings(engine=engine), grants={Drawer: RealDrawer(kind)}).run(keeping(kind), {})
    assert result.error is None
    assert result.state == {"value": kind.make(), "done": True}


async def test_a_caller_that_mutates_the_input_while_the_turn_runs_changes_nothing(engine: EngineName, kind: Kind):
    value = kind.make()
    grants = {Drawer: RealDrawer(kind, value)}
    result = await Interlock(Settings(engine=engine), grants=grants).run(spoilt_by_the_caller(kind), {"value": value})
    assert value != kind.make()
    assert result.state == {"value": kind.make(), "done": True}


async def test_a_caller_that_mutates_a_result_changes_nothing_for_the_next_turn(engine: EngineName):
    interlock, kind = Interlock(Settings(engine=engine)), KINDS["list in a record"]
    graph, given = mutating(kind), {"value": kind.make()}
    first = await interlock.run(graph, given)
    kind.spoil(first.state["value"])
    assert given == {"value": kind.make()}
    second = await interlock.run(graph, given)
    assert second.state == {"value": kind.make(), "done": True}


async def test_an_event_listener_that_mutates_an_event_changes_nothing(engine: EngineName):
    def spoil(event: Any) -> None:
        for value in event["data"].values():
            value.clear()

    kind = KINDS["list in a record"]
    result = await Interlock(Settings(engine=engine)).run(mutating(kind), {"value": kind.make()}, on_event=spoil)
    assert result.state == {"value": kind.make(), "done": True}


class Opened(TypedDict, total=False):
    done: bool


class Library(Capability, Protocol):
    async def titles(self) -> list[str]: ...
    async def record(self) -> Record | None: ...
    async def model(self) -> Model: ...


class RealLibrary:
    """Hands out what it holds, without a copy."""

    def __init__(self) -> None:
        self.held = Record(["a"])
        self.held_model = Model(tags=["a"])

    async def titles(self) -> list[str]:
        return self.held.tags

    async def record(self) -> Record | None:
        return self.held

    async def model(self) -> Model:
        return self.held_model


async def deface(*, library: Library) -> Done:
    (await library.titles()).append("spoilt")
    record = await library.record()
    assert record is not None
    record.tags.append("spoilt")
    (await library.model()).tags.append("spoilt")
    return Done()


async def test_a_node_that_mutates_what_a_capability_returned_changes_nothing_there(engine: EngineName):
    graph = Graph("library", state=Opened, entry=deface, nodes=[node(deface, goes={Done: END})])
    library = RealLibrary()
    result = await Interlock(Settings(engine=engine), grants={Library: library}).run(graph, {})
    assert result.error is None
    assert (library.held, library.held_model) == (Record(["a"]), Model(tags=["a"]))


def set_attribute(outcome: Any) -> None:
    outcome.done = False


def add_attribute(outcome: Any) -> None:
    outcome.more = True


def delete_attribute(outcome: Any) -> None:
    del outcome.done


@pytest.mark.parametrize("change", [set_attribute, add_attribute, delete_attribute])
def test_an_outcome_cannot_be_changed(change: Callable[[Any], None]):
    outcome = Done()
    with pytest.raises(AttributeError, match="cannot"):
        change(outcome)
    assert outcome == Done()
