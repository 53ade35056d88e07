"""axe-core, the checker of accessibility: the npm package, fetched once for the machine and run inside the page."""

from __future__ import annotations

import fcntl
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.support.firestore import cache

__all__ = ["violations"]

VERSION = "4.14.0"


@functools.cache
def _source() -> str:
    """Return the script, or skip the test where npm cannot get it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core needs npm, which is not installed")
    file = cache() / f"axe-core-{VERSION}.js"
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "axe.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as place:
                command = [npm, "install", "--prefix", place, "--no-audit", "--no-fund", "--ignore-scripts", f"axe-core@{VERSION}"]
                done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
                if done.returncode != 0:
                    pytest.skip(f"npm cannot get axe-core: {done.stderr[-300:]}")
                (Path(place) / "node_modules" / "axe-core" / "axe.min.js").rename(file)
    return file.read_text("utf-8")


async def violations(page: Page) -> list[str]:
    """Return what axe finds wrong on the page as it is now. The context of the page has to bypass its policy."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(_source() + "; null")
    found: list[dict[str, Any]] = await page.evaluate(
        """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations.map(
            (one) => ({ id: one.id, nodes: one.nodes.slice(0, 4).map((node) => `${node.html} ${node.failureSummary}`.slice(0, 500)) }))"""
    )
    return [f"{one['id']}: {node}" for one in found for node in one["nodes"]]
