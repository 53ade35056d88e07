"""Four processes run turns of the same sessions while their connections are cut: none is lost, and they keep their order."""

from __future__ import annotations

import asyncio
import statistics
from functools import partial
from random import Random

import pytest

from tests.faults.amounts import SEED, TURNS
from tests.faults.processes import Fleet, Place, all_turns, check_turns, lateness, running_fleet, until
from tests.faults.tally import Log, open_app
from tests.support.postgres import PostgresServer

PROCESSES = 4
SHARES = {"sqlite": 1.0, "postgres": 1.0, "temporal-postgres": 0.1}
"""Of the turns. Temporal takes longer for each."""


async def cut_connections(server: PostgresServer, place: Place, fleet: Fleet, callers: list[int], random: Random) -> int:
    """End connections of all processes, one at a time, until those that call have ended."""
    database = place.settings["turn_url"].partition("@/")[2].partition("?")[0]
    cut = 0
    while not fleet.have_ended(callers):
        await asyncio.sleep(random.random() * 0.3)
        chosen = f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"  # noqa: S608 - the test's own
        rows = await asyncio.to_thread(server.run, f"SELECT pg_terminate_backend(pid) FROM ({chosen}) AS chosen")  # noqa: S608
        cut += len(rows)
    return cut


@pytest.mark.parametrize("place", SHARES, indirect=True)
async def test_four_processes_on_one_session_lose_no_turn_and_keep_their_order(
    place: Place, postgres: PostgresServer, request: pytest.FixtureRequest
):
    count = round(TURNS * SHARES[request.node.callspec.params["place"]])
    is_file = place.settings["turn_url"].startswith("sqlite:")
    random = Random(SEED)  # noqa: S311 - a schedule
    texts: dict[str, str] = {}
    calls: list[list[tuple[str, str, str, str]]] = [[] for _ in range(PROCESSES)]
    for number in range(count):
        turn, agent = f"turn-{number}", "analyst" if number % 4 == 0 else "tally"
        texts[turn] = f"How many orders are there? {number}" if agent == "analyst" else f"text-{number}"
        calls[number % PROCESSES].append((agent, texts[turn], "one", turn))
    for one in calls:
        random.shuffle(one)
    with running_fleet(place) as fleet:
        if "dispatcher" in place.settings:
            # The callers wait for workers, which run the turns.
            for _ in range(PROCESSES):
                fleet.start(slowest_s=0.004)
            await until(lambda: len(fleet.ready()) == PROCESSES)
        callers = [fleet.start(calls=one, slowest_s=0.004) for one in calls]
        async with lateness() as late_s:
            cut = 0 if is_file else await cut_connections(postgres, place, fleet, callers, random)
            await until(partial(fleet.have_ended, callers))
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        results = [line for line in log.read() if line["kind"] == "result"]
        async with app:
            turns = await all_turns(app)
            wrong = await check_turns(app, log, texts, place)
        waits = [turn.started - turn.created for turn in turns if turn.started is not None]
        queued = sorted(wait for wait in waits if wait > 0.001)
        longest = max(0.0, queued[-1] - 2 * late_s()) / statistics.median(queued)
        found = {
            "seed": SEED,
            "turns": len(turns),
            "cut": cut,
            "calls_repeated": sum(line["kind"] == "unavailable" for line in log.read()),
            "median_wait_s": round(statistics.median(queued), 3),
            "longest_wait_s": round(queued[-1], 3),
            "ratio": round(longest, 1),
            "late_s": round(late_s(), 2),
        }
        print(found)  # noqa: T201 - the figures of a soak
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        codes = [line["code"] for line in results]
        assert codes == [None] * count, f"seed {SEED}"
        assert cut > count / 20 or is_file, f"seed {SEED}"
        # Temporal pauses for seconds before it repeats an activity whose connection was cut.
        assert longest <= 10 or "dispatcher" in place.settings, f"seed {SEED}: {queued[-5:]}"
        for agent in ("tally", "analyst"):
            mine = [turn for turn in turns if turn.agent == agent]
            assert [turn.position for turn in mine] == list(range(1, len(mine) + 1)), f"seed {SEED}"
