"""Faulty tools for `tool_functions`: one that never returns, one that returns a key, one that raises."""

from __future__ import annotations

import asyncio

from interlock.capabilities import asks

__all__ = ["A_KEY", "breaks", "hangs", "leaks"]

A_KEY = "sk-" + "A1b2C3d4E5f6G7h8"
"""Has the form of an API key and is not one."""


@asks
async def hangs(text: str = "") -> str:
    """Never return."""
    await asyncio.Event().wait()
    return text


@asks
async def leaks(text: str = "") -> dict[str, str]:
    """Return a key."""
    return {"note": f"the key is {A_KEY}", A_KEY: text}


@asks
async def breaks(query: str = "") -> str:
    """Raise an error with a key in its message."""
    raise RuntimeError(f"{query} {A_KEY}")
