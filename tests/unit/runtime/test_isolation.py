from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


class Entry(TypedDict):
    tags: list[str]


class Box(TypedDict, total=False):
    items: list[str]
    table: dict[str, list[str]]
    names: set[str]
    record: Record
    frozen: Frozen
    model: Model
    entry: Entry
    rows: tuple[list[str], ...]
    anything: Any
    untyped: list[Any]
    done: bool


class Done(Outcome):
    done: bool = True


class Filled(Outcome):
    items: list[str]
    table: dict[str, list[str]]
    names: set[str]
    record: Record
    frozen: Frozen
    model: Model
    entry: Entry
    rows: tuple[list[str], ...]
    anything: Any
    untyped: list[Any]


class Drawer(Capability, Protocol):
    """Keeps hold of objects, and spoils them when it is told to."""

    async def keep(self, thing: Any) -> None: ...
    async def spoil(self) -> None: ...


class RealDrawer:
    def __init__(self, *things: Any) -> None:
        self.things = list(things)

    async def keep(self, thing: Any) -> None:
        self.things.append(thing)

    async def spoil(self) -> None:
        for thing in self.things:
            spoil_all(thing)


def spoil_all(values: dict[str, Any]) -> None:
    """Change every part of the values that can be changed."""
    values["items"].append("spoilt")
    values["table"]["a"].append("spoilt")
    values["table"]["b"] = []
    values["names"].add("spoilt")
    values["record"].tags.append("spoilt")
    values["record"].name = "spoilt"
    values["frozen"].tags.append("spoilt")
    values["model"].tags.append("spoilt")
    values["model"].name = "spoilt"
    values["entry"]["tags"].append("spoilt")
    values["rows"][0].append("spoilt")
    values["anything"]["deep"][0].append("spoilt")
    values["untyped"][0].append("spoilt")


def fresh() -> dict[str, Any]:
    return {
        "items": ["a"],
        "table": {"a": ["a"]},
        "names": {"a"},
        "record": Record(["a"]),
        "frozen": Frozen(["a"]),
        "model": Model(tags=["a"]),
        "entry": {"tags": ["a"]},
        "rows": (["a"],),
        "anything": {"deep": [["a"]]},
        "untyped": [["a"]],
    }


async def mutate(  # noqa: PLR0917 - one parameter for each kind of value
    items: list[str],
    table: dict[str, list[str]],
    names: set[str],
    record: Record,
    frozen: Frozen,
    model: Model,
    entry: Entry,
    rows: tuple[list[str], ...],
    anything: Any,
    untyped: list[Any],
) -> Done:
    spoil_all(locals())
    return Done()


async def fill_and_keep(*, drawer: Drawer) -> Filled:
    values = fresh()
    await drawer.keep(values)
    return Filled(**values)


async def spoil_what_was_kept(*, drawer: Drawer) -> Done:
    await drawer.spoil()
    return Done()


async def finish() -> Done:
    return Done()


mutated = Graph("box", state=Box, entry=mutate, nodes=[node(mutate, goes={Done: finish}), node(finish, goes={Done: END})])
kept = Graph(
    "box",
    state=Box,
    entry=fill_and_keep,
    nodes=[node(fill_and_keep, goes={Filled: spoil_what_was_kept}), node(spoil_what_was_kept, goes={Done: END})],
)
spoilt_by_the_caller = Graph("box", state=Box, entry=spoil_what_was_kept, nodes=[node(spoil_what_was_kept, goes={Done: END})])


async def test_a_node_that_mutates_its_input_changes_nothing(engine: EngineName):
    result = await Interlock(Settings(engine=engine)).run(mutated, fresh())
    assert result.error is None
    assert result.state == {**fresh(), "done": True}


async def test_a_node_that_mutates_what_it_returned_changes_nothing(engine: EngineName):
    result = await Interlock(Settings(engine=engine), grants={Drawer: RealDrawer()}).run(kept, {})
    assert result.error is None
    assert result.state == {**fresh(), "done": True}


async def test_a_caller_that_mutates_the_input_while_the_turn_runs_changes_nothing(engine: EngineName):
    given = fresh()
    result = await Interlock(Settings(engine=engine), grants={Drawer: RealDrawer(given)}).run(spoilt_by_the_caller, given)
    assert given != fresh()
    assert result.state == {**fresh(), "done": True}


async def test_a_caller_that_mutates_a_result_changes_nothing_for_the_next_turn(engine: EngineName):
    interlock, given = Interlock(Settings(engine=engine)), fresh()
    first = await interlock.run(mutated, given)
    spoil_all(first.state)
    assert given == fresh()
    second = await interlock.run(mutated, given)
    assert second.state == {**fresh(), "done": True}


async def test_an_event_listener_that_mutates_an_event_changes_nothing(engine: EngineName):
    def spoil(event: Any) -> None:
        for value in event["data"].values():
            value.clear()

    result = await Interlock(Settings(engine=engine)).run(mutated, fresh(), on_event=spoil)
    assert result.state == {**fresh(), "done": True}


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
    graph = Graph("library", state=Box, entry=deface, nodes=[node(deface, goes={Done: END})])
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
