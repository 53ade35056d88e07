from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, Settings, node
from interlock.engine import EngineName


@dataclass
class Address:
    street: str


class Person(BaseModel):
    name: str


class Company(BaseModel):
    name: str
    size: int = 1


class Seen(Outcome):
    seen: str


def kept_as_it_is(hint: Any, value: Any) -> Graph:
    """Make a graph in which one node writes a value and the next one tells what it was handed."""
    written: Any = type("Written", (Outcome,), {"__annotations__": {"value": hint}, "__module__": __name__})
    make_record: Any = TypedDict

    async def put() -> Any:
        return written(value=value)

    async def look(value: Any) -> Seen:
        return Seen(seen=f"{type(value).__name__} {value!r}")

    put.__annotations__ = {"return": written}
    look.__annotations__ = {"value": hint, "return": Seen}
    state = make_record("Kept", {"value": hint, "seen": str}, total=False)
    return Graph("kept", state=state, entry=put, nodes=[node(put, goes={written: look}), node(look, goes={Seen: END})])


KEPT: list[tuple[Any, Any]] = [
    (tuple[int, ...], (1, 2)),
    (frozenset[str], frozenset({"a"})),
    (deque[int], deque([1], maxlen=3)),
    (OrderedDict[str, int], OrderedDict(a=1)),
    (Counter[str], Counter("aab")),
    (Sequence[str], ["a"]),
    (Mapping[str, int], {"a": 1}),
    (PurePosixPath, PurePosixPath("/a")),
    (Decimal, Decimal("1.50")),
    (datetime | str, "2026-01-01"),
    (UUID | str, str(UUID(int=1))),
    (int | float, 1),
    (list[int] | tuple[int, ...], (1,)),
    (Address | dict[str, int], {"street": 1}),
    (list[Person | Company], [Company(name="Ada"), Person(name="Ada")]),
]
LOST = [(defaultdict[str, list[int]], defaultdict(list, a=[1])), (Sequence[str], ("a",))]


@pytest.mark.parametrize(("hint", "value"), KEPT, ids=[str(hint) for hint, _ in KEPT])
async def test_the_next_node_gets_a_value_of_the_same_class(engine: EngineName, hint: Any, value: Any):
    result = await Interlock(Settings(engine=engine)).run(kept_as_it_is(hint, value), {})
    assert result.error is None
    assert result.state == {"value": value, "seen": f"{type(value).__name__} {value!r}"}


@pytest.mark.parametrize(("hint", "value"), LOST, ids=[str(hint) for hint, _ in LOST])
async def test_the_next_node_gets_a_container_of_the_same_class(engine: EngineName, hint: Any, value: Any):
    result = await Interlock(Settings(engine=engine)).run(kept_as_it_is(hint, value), {})
    assert result.state == {"value": value, "seen": f"{type(value).__name__} {value!r}"}
