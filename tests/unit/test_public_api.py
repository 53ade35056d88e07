from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import interlock
import interlock_agents
from interlock import errors
from interlock.errors import ContractError, InterlockError
from interlock.server import request_errors

PUBLIC = [
    "END",
    "Agent",
    "Capability",
    "Composed",
    "Control",
    "Fault",
    "Graph",
    "Interlock",
    "InterlockError",
    "Outcome",
    "Present",
    "Reply",
    "Rules",
    "Secret",
    "Settings",
    "Subgraph",
    "Trusted",
    "TurnResult",
    "Untrusted",
    "node",
]

MODULES = [
    package.__name__ + found
    for package in (interlock, interlock_agents)
    for found in ("", *(one.name.removeprefix(package.__name__) for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")))
]
SILENT = {  # modules that only say what is in them
    "interlock_agents.gateway.files",
    "interlock_agents.puntini.graphs",
    "interlock.models",
    "interlock.server",
    "interlock.stores",
    "interlock.tools",
    "interlock_agents.gateway.workers",
    "interlock_agents.desk.nodes",
    "interlock.processes",
    "interlock.providers",
    "interlock_agents.analyst.warehouse",
    "interlock_agents.sam.media",
    "interlock_agents.shop",
    "interlock.runtime",
    "interlock.errors",  # the tree in its docstring is compared with its classes below
    "interlock.verification",
    # Agents of a user, which offer nothing of ours.
    *(name for name in MODULES if name.startswith(("interlock.cli.scaffold.", "interlock.cli.minimal."))),
}


def test_the_public_names_are_these_and_no_others():
    assert interlock.__all__ == PUBLIC


def test_what_a_first_program_imports_is_there():
    from interlock import END, Graph, Interlock, Outcome, node  # noqa: PLC0415 - as users write it

    assert all(thing is not None for thing in (END, Graph, Interlock, Outcome, node))


@pytest.mark.parametrize("name", sorted(set(MODULES) - SILENT))
def test_every_module_says_what_it_offers_and_offers_it(name: str):
    module = importlib.import_module(name)
    assert module.__doc__
    offered: list[str] = module.__all__
    assert len(set(offered)) == len(offered)
    missing = [public for public in offered if not hasattr(module, public)]
    assert missing == []
    assert not [public for public in offered if public.startswith("_")]


@pytest.mark.parametrize("name", sorted(SILENT))
def test_every_other_module_says_what_it_is(name: str):
    assert importlib.import_module(name).__doc__


LINE = re.compile(r"^(?P<indent> +)(?P<name>[A-Z]\w+)(?: {2,}(?P<says>.*))?$")


def written_tree() -> dict[str, tuple[str | None, str | None]]:
    """Read the tree in the docstring: each error with its parent and, where one is written, its code."""
    found: dict[str, tuple[str | None, str | None]] = {}
    above: list[tuple[int, str]] = []
    for line in f"{errors.__doc__}{request_errors.__doc__}".splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        indent, name, says = len(match["indent"]), match["name"], match["says"] or ""
        while above and above[-1][0] >= indent:
            above.pop()
        code = says if re.fullmatch(r"[a-z_]+", says) else None
        found.setdefault(name, (above[-1][1] if above else None, code))
        above.append((indent, name))
    return found


def subclasses(error: type[InterlockError]) -> Iterator[type[InterlockError]]:
    yield error
    for child in error.__subclasses__():
        yield from subclasses(child)


def real_errors() -> dict[str, type[InterlockError]]:
    for name in MODULES:
        importlib.import_module(name)
    return {error.__name__: error for error in subclasses(InterlockError) if error.__module__ in {errors.__name__, request_errors.__name__}}


def test_the_tree_of_errors_is_the_one_that_is_written():
    real = {name: error.__bases__[0].__name__ if error is not InterlockError else None for name, error in real_errors().items()}
    assert real == {name: parent for name, (parent, _) in written_tree().items()}


def test_the_codes_of_errors_are_the_ones_that_are_written():
    real = real_errors()
    written = {name: code for name, (_, code) in written_tree().items() if code is not None}
    assert {name: real[name].code for name in written} == written
    assert {name for name, error in real.items() if not error.__subclasses__()} - written.keys() == {"ContractError"}


def test_every_error_has_a_code_of_its_own_and_a_sentence():
    real = real_errors()
    codes = [error.code for error in real.values() if error is not InterlockError]
    assert len(set(codes)) == len(codes)
    for error in real.values():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
        assert error.__doc__
        assert error.__doc__.endswith(".")


def test_an_error_without_a_message_says_its_docstring():
    for error in real_errors().values():
        if error is not ContractError:  # it says what the problems are
            assert error().message == error.__doc__
            assert error("Something else.").message == "Something else."
