"""A caller whose process dies repeats its call with the same key: it is one turn, its effects happen once, its result is the same."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest

from tests.faults.amounts import KILLS, SEED
from tests.faults.processes import Place, all_turns, check_turns, running_fleet, until
from tests.faults.tally import Log, open_app

SHARES = {"sqlite": 0.1, "postgres": 0.1, "temporal": 0.03}
"""Of the kills."""
CALLERS = 10


def is_under_way(log: Log, turn: str, pid: int, *, by_a_worker: bool) -> bool:
    """Return whether a turn was claimed: by the process of its caller, or by a worker."""
    wanted = ("turn", turn) if by_a_worker else ("pid", pid)
    return any(line["kind"] == "claim" and line[wanted[0]] == wanted[1] for line in log.read())


@pytest.mark.parametrize("place", SHARES, indirect=True)
async def test_a_call_that_is_repeated_after_its_process_was_killed_is_one_turn(place: Place, request: pytest.FixtureRequest):
    share = round(KILLS * SHARES[request.node.callspec.params["place"]])
    by_a_worker = "dispatcher" in place.settings
    random, texts = Random(SEED), dict[str, str]()  # noqa: S311 - a schedule
    kills = 0
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        async with app:
            await app.turns.store.now()
            for _ in range(2 if by_a_worker else 0):
                fleet.start()
            await until(lambda: len(fleet.ready()) == len(fleet.running))

            async def call(number: int) -> None:
                """Repeat one call until its process lives long enough to return a result, and then once more."""
                nonlocal kills
                turn, agent = f"turn-{number}", random.choice(["tally", "tally", "analyst"])
                texts[turn] = f"text-{number}" if agent == "tally" else f"How many orders are there? {number}"
                order = [(agent, texts[turn], f"{agent}-{number % 4}", turn)]
                for _ in range(random.choice([1, 1, 2])):
                    pid = fleet.start(calls=order, slowest_s=0.1)
                    if random.random() < 0.7:
                        claimed = partial(is_under_way, log, turn, pid, by_a_worker=by_a_worker)
                        await until(lambda pid=pid, claimed=claimed: fleet.have_ended([pid]) or claimed())
                    await asyncio.sleep(random.uniform(0.0, 0.8))
                    kills += fleet.is_alive(pid)
                    fleet.kill(pid)
                for _ in range(2):
                    pid = fleet.start(calls=order, slowest_s=0.1)
                    await until(partial(fleet.have_ended, [pid]))
                    fleet.running.remove(pid)

            number = 0
            while kills < share:
                await asyncio.gather(*(call(number + one) for one in range(CALLERS)))
                number += CALLERS
            wrong = await check_turns(app, log, texts, place)
            turns = await all_turns(app)
        said: dict[str, set[str]] = {turn: set() for turn in texts}
        for line in log.read():
            if line["kind"] == "result":
                said[line["turn"]].add(f"{line['code']} {line['output']}")
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert len(turns) == len(texts)
        assert all(len(results) == 1 for results in said.values()), f"seed {SEED}: {said}"
        # Where a worker runs the turns, they do not die with their callers.
        assert by_a_worker or any(turn.attempts > 1 for turn in turns), f"seed {SEED}: no call was under way when its process was killed"
