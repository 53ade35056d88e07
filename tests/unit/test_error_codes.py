"""Every error there is happens somewhere, and a test sees it happen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.errors import InterlockError
from interlock.server.request_errors import RequestError

SOURCE = Path(interlock.__file__).parent
TESTS = Path(__file__).parents[1]


def kinds(kind: type[InterlockError] = InterlockError) -> Iterator[type[InterlockError]]:
    """The errors that happen: those that others are kinds of only name a family."""
    families = kind.__subclasses__()
    if not families and kind.__module__ in {InterlockError.__module__, RequestError.__module__}:
        yield kind
    for family in families:
        yield from kinds(family)


def words(folder: Path, *without: Path) -> set[str]:
    """Every word of the code in a folder, but for some files or folders."""
    return {
        word
        for file in folder.rglob("*.py")
        if not {file, *file.parents} & {*without}
        for word in re.findall(r"\w+", file.read_text("utf-8"))
    }


@pytest.fixture(scope="module")
def raised() -> set[str]:
    return words(SOURCE, SOURCE / "errors.py", SOURCE / "server/request_errors.py") | words(SOURCE.with_name("interlock_agents"), SOURCE)


@pytest.fixture(scope="module")
def tested() -> set[str]:
    return words(TESTS, Path(__file__))


KINDS = sorted(set(kinds()), key=lambda kind: kind.code)


def test_no_two_errors_share_a_code():
    codes = [kind.code for kind in KINDS]
    assert len(codes) > 40
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.code)
def test_an_error_is_raised_somewhere_and_tested(kind: type[InterlockError], raised: set[str], tested: set[str]):
    assert kind.__name__ in raised
    assert kind.__name__ in tested or kind.code in tested
