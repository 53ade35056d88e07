"""Time that passes at once: a test of what happens when it is up neither waits for it nor depends on how fast the machine is."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, cast

ENOUGH = 4.0
"""Seconds that are enough for anything but waiting."""


class _Time:
    """The time of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._real = loop.time
        self.passed = 0.0

    def __call__(self) -> float:
        return self._real() + self.passed


def let_time_pass() -> None:
    """Make the time of the running event loop one that can be made to pass."""
    loop: Any = asyncio.get_running_loop()
    loop.time = _Time(loop)


def pass_time(seconds: float) -> None:
    """Let some time pass, all of it now."""
    time: Any = asyncio.get_running_loop().time
    cast("_Time", time).passed += seconds


def use_up() -> None:
    """Let more time pass than is enough."""
    pass_time(ENOUGH + 1)


async def leap(seconds: float) -> None:
    """Let some time pass, and everything happen that is due then."""
    pass_time(seconds)
    for _ in range(5):
        await asyncio.sleep(0)


async def run_out() -> NoReturn:
    """Let the time run out, and then wait for ever."""
    use_up()
    await asyncio.Event().wait()
    raise AssertionError
