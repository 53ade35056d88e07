"""minimal, tested: its node as a plain function, and a whole turn."""
# ruff: noqa: S101 - assert is what tests do

import asyncio

from interlock import Interlock, Settings, TurnResult

from . import Greeted, agent, greet


def test_a_name_is_greeted() -> None:
    """Call the node."""
    assert asyncio.run(greet("Ada")) == Greeted(greeting="Hello, Ada!")


def test_a_turn_gives_the_greeting() -> None:
    """Run a turn."""

    async def run() -> TurnResult:
        async with Interlock(Settings(engine="direct")) as app:
            return await app.run(agent, "Ada")

    assert asyncio.run(run()).output == "Hello, Ada!"
