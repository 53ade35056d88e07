"""What people type first: every answer of the gateway's offline rules is right, or says what was not understood."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.engine import EngineName
from tests.support.everyday import Everyday, everyday
from tests.support.gateway import app

CORPUS = everyday("gateway")
QUOTES = ("(from ", "here:\n", ":\n\n", "Done.")
"""How a reply begins or ends that shows something of the files, or says that they were changed."""


def test_the_corpus_is_large_enough():
    assert len(CORPUS) >= 100
    assert len({(one.role, one.before, one.text) for one in CORPUS}) == len(CORPUS)
    assert {one.kind for one in CORPUS} >= {"answer", "not_understood", "not_found", "refusal", "small_talk"}


@pytest.fixture
async def running(engine: EngineName, tmp_path: Path) -> AsyncGenerator[Interlock]:
    async with app(engine, tmp_path) as made:
        yield made


async def faults(running: Interlock, one: Everyday) -> list[str]:
    for text in one.before:
        await running.run("gateway", text, role=one.role)
    result = await running.run("gateway", one.text, role=one.role)
    if result.error is not None:
        return [f"ended with {result.error.code}"]
    reply = str(result.output)
    shows = any(quote in reply for quote in QUOTES)
    wrong = [f"shows something: {reply!r}"] if shows and one.kind in {"not_understood", "not_found", "small_talk"} else []
    return [*one.faults(reply), *wrong]


@pytest.mark.parametrize("part", range(4))
async def test_every_answer_of_the_corpus_is_right(running: Interlock, part: int):
    wrong = {f"{one.role}: {one.text}": found for one in itertools.islice(CORPUS, part, None, 4) if (found := await faults(running, one))}
    assert wrong == {}
