"""Workers that are killed and frozen at any moment: every accepted turn ends, and nothing that was finished is repeated.

`make soak` runs it for hours: INTERLOCK_KILLS and INTERLOCK_FREEZES say how much. INTERLOCK_SEED repeats a run that failed, as far
as the operating system allows.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from random import Random

import pytest

from tests.faults.amounts import FREEZES, KILLS, SEED
from tests.faults.load import Load
from tests.faults.processes import Fleet, Place, all_turns, check_streams, check_turns, ended, lateness, running_fleet, takeovers, until
from tests.faults.tally import LEASE_S, Log, open_app

WORKERS = 4
SHARES = {"sqlite": 0.35, "postgres": 0.35, "temporal": 0.06, "temporal-postgres": 0.04}
"""The others are of test_repeated_calls."""
BETWEEN_KILLS_S = {"embedded": 0.3, "temporal": 1.2}
TAKEN_OVER_S = {"embedded": 5.0, "temporal": 8.0}


async def kill_some(fleet: Fleet, random: Random, frozen: set[int], kills: int, between_s: float) -> None:
    for _ in range(kills):
        await asyncio.sleep(random.uniform(0.1, 2 * between_s - 0.1))
        await until(lambda: set(fleet.ready()) - frozen)
        # Some are killed while they start.
        chosen = fleet.ready() if random.random() < 0.9 else fleet.running
        fleet.kill(random.choice([pid for pid in chosen if pid not in frozen]))
        fleet.start()


async def freeze_some(fleet: Fleet, random: Random, frozen: set[int], freezes: int) -> None:
    """Freeze one worker after the other, for longer than its lease or for less."""
    for _ in range(freezes):
        await until(fleet.ready)
        pid = random.choice(fleet.ready())
        frozen.add(pid)
        await fleet.freeze(pid, random.uniform(0.5, 1.4) * LEASE_S)
        frozen.discard(pid)
        await asyncio.sleep(random.random() * 0.3)


@pytest.mark.parametrize("place", SHARES, indirect=True)
async def test_every_accepted_turn_ends_and_nothing_finished_is_repeated(full_place: Place, request: pytest.FixtureRequest):
    store: str = request.node.callspec.params["place"]
    dispatcher = full_place.settings.get("dispatcher", "embedded")
    kills, freezes = round(KILLS * SHARES[store]), round(FREEZES * SHARES[store] / 0.8)
    random, place = Random(SEED), full_place  # noqa: S311 - a schedule
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.settings), Log(place.folder)
        load = Load(app, random, place.settings, followed=0.2)
        async with app, lateness() as late_s:
            await app.turns.store.now()
            for _ in range(WORKERS):
                fleet.start()
            await until(fleet.ready)
            frozen: set[int] = set()
            killing = kill_some(fleet, random, frozen, kills, BETWEEN_KILLS_S[dispatcher])
            faults = asyncio.gather(killing, freeze_some(fleet, random, frozen, freezes))
            await asyncio.gather(faults, load.submit(is_over=faults.done))
            has_ended = await ended(app, timeout_s=60)
            wrong = await check_turns(app, log, load.texts, place)
            wrong += await check_streams(app, load.followers) if has_ended else []
            turns = await all_turns(app)
        took = takeovers(fleet, log)
        repeated = sum(line["kind"] == "add" for line in log.read()) - len(list((log.folder / "applied").iterdir()))
        found = {
            "seed": SEED,
            "store": store,
            "turns": dict(Counter(turn.agent for turn in turns)),
            "kills": len(fleet.killed),
            "freezes": freezes,
            "taken_over": len(took),
            "median_s": round(statistics.median(took or [0]), 2),
            "longest_s": round(max(took, default=0), 2),
            "late_s": round(late_s(), 2),
            "keyed_calls_made_again": repeated,
            # What a resumed turn ended with. Calls of tools must not be repeated, so a turn whose worker died in one has no answer.
            "resumed": dict(Counter(f"{turn.agent} {turn.code or turn.status}" for turn in turns if turn.attempts > 1)),
        }
        print(found)  # noqa: T201 - the figures of a soak
        assert has_ended, f"seed {SEED}: {wrong}"
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert len(took) > kills / 20, f"seed {SEED}: the kills have met no turns"
        assert max(took, default=0) <= TAKEN_OVER_S[dispatcher] + 2 * late_s(), f"seed {SEED}: {sorted(took)[-5:]}"
