"""Workers that are killed and frozen at any moment: every accepted turn ends, and nothing that was finished is repeated.

`make soak` runs it for hours: INTERLOCK_KILLS and INTERLOCK_FREEZES say how much. INTERLOCK_SEED repeats a run that failed, as far
as the operating system allows.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
from collections import Counter
from collections.abc import Callable
from random import Random

from interlock import Interlock
from tests.faults.processes import Fleet, Place, all_turns, check_turns, ended, running_fleet, takeovers, until
from tests.faults.tally import LEASE_S, TALLY, Log, open_app

KILLS = int(os.environ.get("INTERLOCK_KILLS", "60"))
FREEZES = int(os.environ.get("INTERLOCK_FREEZES", "10"))
SEED = int(os.environ.get("INTERLOCK_SEED", "0")) or secrets.randbelow(1_000_000) + 1
WORKERS = 3
TAKEN_OVER_S = LEASE_S + 5.0
BETWEEN_KILLS_S = 0.55


async def submit(app: Interlock, random: Random, texts: dict[str, str], *, is_over: Callable[[], bool]) -> None:
    """Submit turns of three agents in a few sessions, always some more than there are workers for."""
    number = 0
    while not is_over():
        number += 1
        turn, choice = f"turn-{number}", random.random()
        if choice < 0.7:
            texts[turn] = f"{'pay' if random.random() < 0.15 else 'text'}-{number}"
            await app.submit(TALLY, texts[turn], session=f"s{random.randrange(8)}", turn=turn)
        elif choice < 0.9:
            texts[turn] = f"hello {number}"
            await app.submit("sam", texts[turn], turn=turn)
        else:
            texts[turn] = f"How many orders are there? {number}"
            await app.submit("analyst", texts[turn], session=f"a{random.randrange(4)}", turn=turn)
        await asyncio.sleep(random.random() * 0.25)


async def kill_some(fleet: Fleet, random: Random, frozen: set[int]) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(random.uniform(0.1, 2 * BETWEEN_KILLS_S - 0.1))
        await until(lambda: set(fleet.ready()) - frozen)
        # Some are killed while they start.
        chosen = fleet.ready() if random.random() < 0.9 else fleet.running
        fleet.kill(random.choice([pid for pid in chosen if pid not in frozen]))
        fleet.start()


async def freeze_some(fleet: Fleet, random: Random, frozen: set[int]) -> None:
    """Freeze one worker after the other, for longer than its lease or for less."""
    for _ in range(FREEZES):
        await until(fleet.ready)
        pid = random.choice(fleet.ready())
        frozen.add(pid)
        await fleet.freeze(pid, random.uniform(0.5, 1.4) * LEASE_S)
        frozen.discard(pid)
        await asyncio.sleep(random.random())


async def test_every_accepted_turn_ends_and_nothing_finished_is_repeated(place: Place):
    random, texts = Random(SEED), dict[str, str]()  # noqa: S311 - a schedule
    with running_fleet(place) as fleet:
        app, log = open_app(place.folder, place.turn_url, place.checkpoint_url), Log(place.folder)
        async with app:
            await app.turns.store.now()
            for _ in range(WORKERS):
                fleet.start()
            await until(fleet.ready)
            frozen: set[int] = set()
            faults = asyncio.gather(kill_some(fleet, random, frozen), freeze_some(fleet, random, frozen))
            await asyncio.gather(faults, submit(app, random, texts, is_over=faults.done))
            has_ended = await ended(app, timeout_s=60)
            wrong = await check_turns(app, log, texts)
            turns = await all_turns(app)
        took = takeovers(fleet, log)
        repeated = sum(line["kind"] == "add" for line in log.read()) - sum(line["kind"] == "applied" for line in log.read())
        found = {
            "seed": SEED,
            "turns": len(texts),
            "kills": len(fleet.killed),
            "freezes": FREEZES,
            "taken_over": len(took),
            "median_s": round(statistics.median(took or [0]), 2),
            "longest_s": round(max(took, default=0), 2),
            "keyed_calls_made_again": repeated,
            # What a resumed turn ended with. Calls of tools must not be repeated, so a turn whose worker died in one has no answer.
            "resumed": dict(Counter(f"{turn.agent} {turn.code or turn.status}" for turn in turns if turn.attempts > 1)),
        }
        print(found)  # noqa: T201 - the figures of a soak
        assert has_ended, f"seed {SEED}: {wrong}"
        assert not wrong, f"seed {SEED}: {wrong}"
        assert not fleet.stderr(), f"seed {SEED}"
        assert len(took) > KILLS / 20, f"seed {SEED}: the kills have met no turns"
        assert max(took, default=0) <= TAKEN_OVER_S, f"seed {SEED}: {sorted(took)[-5:]}"
