"""A damaged ladybug file is told from a good one: it is never read as an empty graph, and no good one is ever called damaged."""

# ruff: noqa: ASYNC220, ASYNC222, ASYNC240, ASYNC251, S311 - files and processes of a test's own; the same chance in every run
from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.errors import StoreCorrupt
from interlock_agents.puntini.graph_store import AddEdge, AddNode, Change, Edge, Node, NodeRef
from interlock_agents.puntini.graphs.checksums import Checksums
from interlock_agents.puntini.graphs.ladybug import LadybugGraphs, open_ladybug
from interlock_agents.puntini.graphs.process import LadybugProcess
from tests.support.amount import ALL, EXAMPLES

WRITER = Path(__file__).parent / "store_writer.py"
PAGE = 4096
KILLS = 60 if EXAMPLES >= ALL else 12
ENDS = 30 if EXAMPLES >= ALL else 12
FLIPS = 120 if EXAMPLES >= ALL else 12
CUTS = 60 if EXAMPLES >= ALL else 8
GRAPH = "mine"


def store(folder: Path) -> LadybugGraphs:
    return open_ladybug(folder, timeout_s=30.0, max_rows=100_000, max_bytes=10_000_000)


def step(count: int, start: int = 0) -> tuple[Change, ...]:
    nodes = [Node(label=f"Label{number % 3}", key=str(number), properties={"n": number}) for number in range(start, start + count)]
    edges = [
        Edge(start=NodeRef(label=one.label, key=one.key), end=NodeRef(label=other.label, key=other.key), relationship="NEXT")
        for one, other in itertools.pairwise(nodes)
    ]
    return (*(AddNode(node=node) for node in nodes), *(AddEdge(edge=edge) for edge in edges))


async def make(folder: Path, state: str) -> None:
    """Make a graph whose process has closed it, was killed after it had closed it once, or was killed when it had never been closed."""
    graphs = store(folder)
    await graphs.apply(GRAPH, step(60))
    if state != "new":
        await graphs.aclose()
    if state != "closed":
        await graphs.apply(GRAPH, step(40, 60))
        pid = graphs._open[GRAPH].file.pid  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def damaged(whole: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Make images of a file that has lost something."""
    yield "emptied", b""
    yield "zeroed", bytes(len(whole))
    yield "junk", chance.randbytes(len(whole))
    for size in sorted({1, PAGE - 1, PAGE, len(whole) // 2, len(whole) - 1, *chance.sample(range(len(whole)), min(CUTS, len(whole)))}):
        if 0 < size < len(whole):
            yield f"cut at {size}", whole[:size]
    pages = range(0, len(whole), PAGE)
    for start in pages if EXAMPLES >= ALL else chance.sample(pages, min(len(pages), 8)):
        image = whole[:start] + bytes(len(whole[start : start + PAGE])) + whole[start + PAGE :]
        if image != whole:
            yield f"page at {start} zeroed", image
    for place in chance.sample(range(len(whole)), min(FLIPS, len(whole))):
        yield f"flipped at {place}", whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :]


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("state", "suffix"), [("closed", ".lbug"), ("killed", ".lbug"), ("killed", ".lbug.wal"), ("new", ".lbug"), ("new", ".lbug.wal")]
)
async def test_every_damaged_file_is_store_corrupt_and_unchanged(tmp_path: Path, state: str, suffix: str) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    await make(good, state)
    (file,) = good.glob(f"*{suffix}")
    tried = 0
    for name, image in damaged(file.read_bytes(), random.Random(f"{state}{suffix}")):
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        (bad / file.name).write_bytes(image)
        before = content(bad)
        graphs = store(bad)
        with pytest.raises(StoreCorrupt, match="left as it is"):
            pytest.fail(f"{name}: {len(await graphs.nodes(GRAPH, limit=1000))} nodes were found")
        if tried % 5 == 0:
            with pytest.raises(StoreCorrupt):
                await graphs.apply(GRAPH, step(1, 1000))
        await graphs.aclose()
        assert content(bad) == before, name
        tried += 1
    assert tried >= 20
    assert len(await store(good).nodes(GRAPH, limit=1000)) == (60 if state == "closed" else 100)


@pytest.mark.parametrize("state", ["closed", "killed", "new"])
async def test_a_missing_file_is_not_read_as_an_empty_graph(tmp_path: Path, state: str) -> None:
    await make(tmp_path, state)
    (file,) = tmp_path.glob("*.lbug")
    file.unlink()
    before = content(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreCorrupt):
            await store(tmp_path).nodes(GRAPH)
    assert content(tmp_path) == before
    for one in tmp_path.iterdir():  # as the message says
        one.unlink()
    assert await store(tmp_path).nodes(GRAPH) == ()


async def test_an_empty_file_without_checksums_is_not_read_as_an_empty_graph(tmp_path: Path) -> None:
    graphs = store(tmp_path)
    await graphs.nodes(GRAPH)
    await graphs.aclose()
    (file,) = tmp_path.glob("*.lbug")
    for one in tmp_path.iterdir():
        one.unlink()
    file.touch()
    with pytest.raises(StoreCorrupt):
        await store(tmp_path).apply(GRAPH, step(1))
    assert file.read_bytes() == b""


async def test_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    await make(tmp_path, "closed")
    (sums,) = tmp_path.glob("*.sum")
    sums.unlink()
    graphs = store(tmp_path)
    assert len(await graphs.nodes(GRAPH, limit=1000)) == 60
    await graphs.aclose()
    assert sums.stat().st_size > 0


async def test_damaged_checksums_are_store_corrupt(tmp_path: Path) -> None:
    await make(tmp_path, "closed")
    (sums,) = tmp_path.glob("*.sum")
    sums.write_bytes(b"junk" * 100)
    with pytest.raises(StoreCorrupt):
        await store(tmp_path).nodes(GRAPH)


async def test_an_incomplete_commit_is_cut_off_and_acknowledged_changes_remain(tmp_path: Path) -> None:
    """A process that is killed in the middle of a commit leaves a part of it at the end of the log."""
    good, torn = tmp_path / "good", tmp_path / "torn"
    await make(good, "killed")
    (log,) = good.glob("*.wal")
    whole = log.read_bytes()
    for size in sorted({1, 2, 40, *random.Random(1).sample(range(1, len(whole)), CUTS // 2)}):
        shutil.rmtree(torn, ignore_errors=True)
        shutil.copytree(good, torn)
        (torn / log.name).write_bytes(whole + whole[:size])
        graphs = store(torn)
        assert len(await graphs.nodes(GRAPH, limit=1000)) == 100
        await graphs.apply(GRAPH, step(5, 500))
        await graphs.aclose()
        assert len(await store(torn).nodes(GRAPH, limit=1000)) == 105


@pytest.mark.parametrize(
    "tail",
    [
        "8e222cb66c551d7a016f80505c10a219453b26351fc3eca686324251ff8c240ab1adfa06f887b002",
        "43817f947696662302a7f29797740820e1757423333a5542141db4fb280b35d495dbe3466e0bd665",
        "199c132cd330c99c0ee8d8166b99c83ba7476a7c3906ea015dc2752d4dff588762bf365106f53a80",
        "eb0d0851c04091ed1031886eea33e1ee3fc2f7c2eee0983f01c210c9bd2de344ed579d3006f09112",
    ],
)
async def test_bytes_that_ladybug_takes_for_a_huge_entry_are_cut_off(tmp_path: Path, tail: str) -> None:
    await make(tmp_path, "killed")
    (log,) = tmp_path.glob("*.wal")
    log.write_bytes(log.read_bytes() + bytes.fromhex(tail))
    assert len(await store(tmp_path).nodes(GRAPH, limit=1000)) == 100


async def test_an_incomplete_commit_is_cut_off_before_an_interrupted_merge(tmp_path: Path) -> None:
    await make(tmp_path, "killed")
    (file,) = tmp_path.glob("*.lbug")
    (log,) = tmp_path.glob("*.wal")
    sums = Checksums(file)
    sums.lock()
    sums.check()
    sums.merging(4)
    sums.unlock()
    log.write_bytes(log.read_bytes() * 2)
    log.write_bytes(log.read_bytes()[:-7])
    graphs = store(tmp_path)
    assert len(await graphs.nodes(GRAPH, limit=1000)) == 100
    await graphs.apply(GRAPH, step(5, 500))
    await graphs.aclose()
    assert len(await store(tmp_path).nodes(GRAPH, limit=1000)) == 105


@pytest.mark.parametrize("ends", ["killed", "hung up on"])
async def test_a_process_without_a_proper_close_leaves_the_file_unchanged(tmp_path: Path, ends: str) -> None:
    """A commit may have failed before, on a full disk: what is left of it in the log must not be merged."""
    await make(tmp_path, "closed")
    (file,) = tmp_path.glob("*.lbug")
    for _ in range(ENDS):
        process = LadybugProcess(file, name=GRAPH, timeout_s=30.0, max_bytes=10_000_000)
        process.run([("MATCH (n:Label0) SET n.n = 1", {})], within=30.0, commits=True)
        before = content(tmp_path)
        if ends == "killed":
            process.kill()
        else:
            child = process._child  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            child._socket.shutdown(socket.SHUT_WR)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            child._process.wait(30)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        assert content(tmp_path) == before
        graphs = store(tmp_path)
        assert len(await graphs.nodes(GRAPH, limit=1000)) == 60
        await graphs.aclose()


async def test_acknowledged_changes_survive_a_kill_at_any_moment(tmp_path: Path) -> None:
    """Kill who writes and who has the file, over and over, while logs are being merged: a good file is never called damaged."""
    chance = random.Random(7)
    acknowledged: set[str] = set()
    for _ in range(KILLS):
        first = max(map(int, acknowledged), default=-1) + 2  # the one after it may have been added and not acknowledged
        with subprocess.Popen([sys.executable, WRITER, tmp_path, GRAPH, str(first)], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            pid = int(writer.stdout.readline().removeprefix("open "))
            time.sleep(chance.random() * 0.5)
            if chance.random() < 0.7:
                with contextlib.suppress(ProcessLookupError):  # the writer may have closed the file in the meantime, and opened it again
                    os.kill(pid, signal.SIGKILL)
            writer.kill()
            lines = writer.stdout.read().split("\n")[:-1]
        acknowledged |= {line for line in lines if line.isdecimal()}
        for line in lines:
            if line.startswith("open "):  # whoever had it open last would end by itself, in a moment
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.removeprefix("open ")), signal.SIGKILL)
        graphs = store(tmp_path)
        there = {node.key for node in await graphs.nodes(GRAPH, limit=100_000)}
        await graphs.aclose()
        assert acknowledged <= there
    assert len(acknowledged) > KILLS
