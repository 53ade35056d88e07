"""Remember in places that others set up at the same moment: a process of its own for test_memory.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock.stores.memory import open_memory


async def remember(place: str, who: str) -> None:
    memory = open_memory(place, path=Path(), timeout_s=30) if "://" in place else open_memory(None, path=Path(place), timeout_s=30)
    for number in range(5):
        await memory.remember(f"{who} {number}", f"what {who} knows of {number}")
    await memory.aclose()


if __name__ == "__main__":
    print("ready", flush=True)  # noqa: T201 - to the test
    for line in sys.stdin:
        asyncio.run(remember(line.strip(), sys.argv[1]))
        print("done", flush=True)  # noqa: T201 - to the test
