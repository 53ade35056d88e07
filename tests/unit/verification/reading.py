"""Builds graphs from the bodies of `bodies/`, as modules of their own, so that the prover reads real functions."""

import atexit
import functools
import importlib.util
import itertools
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from interlock import END, Graph, node
from interlock.verification.flows import GraphFlow

FOLDER = Path(__file__).parent / "bodies"
HEAD = """
from __future__ import annotations

import contextlib
import functools
import heapq
import os
import time
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from interlock import END, Capability, Control, Graph, Outcome, Trusted, Untrusted, node
from interlock.capabilities.capability import asks
from interlock.contract import guard
from interlock.errors import InterlockError

KEPT: list[str] = []


@dataclass(frozen=True)
class Reply:
    kind: Literal["a", "b"]
    words: str


class Oracle(Capability, Protocol):
    @asks
    async def ask(self, question: str) -> Reply: ...


class Other(Capability, Protocol):
    @asks
    async def ask(self, question: str) -> Reply: ...


@dataclass
class State:
    text: Annotated[str, Untrusted]
    note: Annotated[str | None, Untrusted]
    items: Annotated[tuple[str, ...], Untrusted]
    notes: Annotated[list[str], Untrusted]
    marks: Annotated[dict[str, bool], Untrusted]
    choice: Annotated[Literal["a", "b"], Control]
    flag: Annotated[bool, Control]
    limit: Annotated[int, Trusted]


@dataclass(frozen=True)
class Box:
    text: str
    kind: str = "a"

    @property
    def is_left(self) -> bool:
        return self.text == "a"


class Left(Outcome):
    pass


class Right(Outcome):
    pass


class Done(Outcome):
    pass


CLASSES = {"a": Left, "b": Right}


@guard
def says_left(text: str) -> bool:
    return text == "left"


def is_left(text: str) -> bool:
    return text == "left"


def chosen(text: str) -> Left | Right:
    if text == "left":
        return Left()
    return Right()


def check(text: str) -> None:
    if text == "a":
        raise LookupError(text)


def fill(ways: list[str], text: str) -> None:
    if text == "a":
        ways.append(text)


def deep(text: str, depth: int) -> bool:
    return text == "a" if depth == 0 else deep(text, depth - 1)


def letters(text: str):
    if text == "a":
        yield text


def equal(one: str, other: str) -> bool:
    return one == other


def shout(text: str) -> str:
    return text.upper() if text else "nothing"


LAST = ""


def remember(text: str) -> None:
    global LAST
    LAST = text


def recalled() -> str:
    return LAST


class Shelf:
    last = ""

    def keep(self, text: str) -> None:
        self.last = text


SHELF = Shelf()


def collected(text: str, seen: list[str] = []) -> list[str]:
    seen.append(text)
    return seen


async def left() -> Done:
    return Done()


async def right() -> Done:
    return Done()


"""
PARAMETERS = {
    "text": "str",
    "note": "str | None",
    "items": "tuple[str, ...]",
    "notes": "list[str]",
    "marks": "dict[str, bool]",
    "choice": 'Literal["a", "b"]',
    "flag": "bool",
    "limit": "int",
}
_numbers = itertools.count()


def bodies(name: str) -> dict[str, str]:
    text = (FOLDER / name).read_text()
    return {part.partition("\n")[0].strip(): part.partition("\n")[2] for part in text.split("### ") if part.strip()}


class Flows(dict[str, GraphFlow]):
    """The flows of all bodies of a file. They are read when they are asked for, and stand in one module."""

    def __init__(self, name: str) -> None:
        self._numbers = {body: number for number, body in enumerate(bodies(name))}
        parameters = ", ".join(f"{parameter}: {hint}" for parameter, hint in PARAMETERS.items())
        source = HEAD + (FOLDER / "prelude.txt").read_text()
        for number, body in enumerate(bodies(name).values()):
            source += f"\n\nasync def step_{number}({parameters}, *, oracle: Oracle, other: Other) -> Left | Right:\n{body}\n"
        folder = Path(tempfile.mkdtemp(prefix="bodies-"))
        atexit.register(shutil.rmtree, folder)
        self._module = module_from(source, folder)

    def __missing__(self, name: str) -> GraphFlow:
        made = self._module
        step = getattr(made, f"step_{self._numbers[name]}")
        rows = [node(step, goes={made.Left: made.left, made.Right: made.right})]
        rows += [node(end, goes={made.Done: END}) for end in (made.left, made.right)]
        self[name] = GraphFlow(Graph("graph", state=made.State, entry=step, nodes=rows), is_entry=False)
        return self[name]


@functools.cache
def flows(name: str) -> Flows:
    return Flows(name)


def module_from(source: str, folder: Path) -> ModuleType:
    name = f"body_{next(_numbers)}"
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
