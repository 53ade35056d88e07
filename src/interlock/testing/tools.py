"""Tools that misbehave, for `tool_functions`: one that never ends, one that gives a key away, one that breaks."""

from __future__ import annotations

import asyncio

__all__ = ["A_KEY", "breaks", "hangs", "leaks"]

A_KEY = "sk-" + "A1b2C3d4E5f6G7h8"
"""Looks like a key, and is none."""


async def hangs(text: str = "") -> str:
    """Never end."""
    await asyncio.Event().wait()
    return text


async def leaks(text: str = "") -> dict[str, str]:
    """Give a key away."""
    return {"note": f"the key is {A_KEY}", A_KEY: text}


async def breaks(query: str = "") -> str:
    """Break, with a key in the reason."""
    raise RuntimeError(f"{query} {A_KEY}")
