"""Everyday questions to the analyst without a model: each gets the right answer, or is told what was not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from interlock import Interlock, TurnResult
from interlock.engine import EngineName
from tests.support.analyst import SHORT, app
from tests.support.everyday import Everyday, everyday

CORPUS = everyday("analyst")


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose warehouse is made once."""
    return tmp_path_factory.mktemp("analyst-everyday")


def numbers(reply: str) -> list[float]:
    """Read every number of a reply, whatever separators it has."""
    return [float(found.replace(",", "")) for found in re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?", reply)]


def values(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[Any]:
    for row in connection.execute(sql).fetchall():
        yield from row


def missing(one: Everyday, reply: str, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Find the values that an independent query has and the reply has not."""
    if one.sql is None:
        return []
    said = numbers(reply)
    found: list[str] = []
    for value in values(connection, one.sql):
        is_there = value in reply if isinstance(value, str) else any(abs(float(value) - number) < 0.006 for number in said)
        found += [] if is_there else [f"lacks {value}"]
    return found


def kind_faults(one: Everyday, result: TurnResult) -> list[str]:
    """Compare what kind of reply it is with the one that was judged right."""
    reply, used = str(result.output), bool(result.metadata["used"])
    match one.kind:
        case "answer":
            right = used and "[call-" in reply
        case "question" | "not_understood":
            right = not used and "?" in reply and "\n|" not in reply
        case "not_found":
            right = not used and ("could not find" in reply or "so there is nothing for" in reply)
        case "refusal":
            right = result.path == SHORT and reply.startswith("I cannot help with this")
        case "small_talk":
            right = result.path == SHORT and not used and not reply.startswith("I cannot help") and "not understand" not in reply
    return [] if right else [f"is no {one.kind}"]


async def reply_to(running: Interlock, one: Everyday, session: str) -> TurnResult:
    for earlier in one.before:
        await running.run("analyst", earlier, session=session)
    return await running.run("analyst", one.text, session=session)


async def test_everyday_questions_get_the_judged_answer(shop: Path, subtests: Any):
    assert len(CORPUS) >= 300
    async with app("direct", shop, tool_seconds=60.0, checkpoint_url="memory:") as running:
        replies = [await reply_to(running, one, f"everyday-{at}") for at, one in enumerate(CORPUS)]
    with duckdb.connect(str(shop / "warehouse.duckdb"), read_only=True) as connection:
        for one, result in zip(CORPUS, replies, strict=True):
            with subtests.test(one.text, before=one.before):
                assert result.error is None
                reply = str(result.output)
                assert (kind_faults(one, result), one.faults(reply), missing(one, reply, connection)) == ([], [], []), reply


@pytest.mark.parametrize("at", range(0, len(CORPUS), 60))
async def test_both_engines_answer_the_same(engine: EngineName, shop: Path, at: int):
    one = CORPUS[at]
    async with app(engine, shop, tool_seconds=60.0, checkpoint_url="memory:") as running:
        result = await reply_to(running, one, "both")
    assert (kind_faults(one, result), one.faults(str(result.output))) == ([], [])
