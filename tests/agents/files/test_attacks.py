"""200,000 attempts to get out of a scope. Each family says how many it owes; what it owes is asserted where it is made."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from interlock_agents.gateway.files.resolvers import ResolverName
from tests.agents.files.arena import CANARY, Arena, exchange, exchanging

# Attempts of each family, with each of the two resolvers.
SHARES = {
    "upwards": 30_000,
    "encoded": 20_000,
    "malformed": 20_000,
    "of the host": 10_000,
    "links": 10_000,
    "no plain files": 5_000,
    "patterns": 1_000,
    "the root": 1_000,
    "exchanged folders": 6_000,
    "exchanged files": 6_000,
    "exchanged while deleted": 400,
}


@pytest.fixture
def arena(tmp_path: Path, resolver: ResolverName) -> Iterator[Arena]:
    base = tmp_path / "base"
    base.mkdir()
    arena = Arena(base, resolver)
    yield arena
    arena.scope.close()


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same attempts every time


def test_the_number_of_attempts_is_as_documented() -> None:
    assert 2 * sum(SHARES.values()) >= 200_000


def test_paths_that_go_up(arena: Arena) -> None:
    def paths() -> Iterator[str]:
        roll = dice(1)
        for depth in range(1, 20):
            yield "/" + "../" * depth + "outside/canary.md"
            yield "../" * depth + "outside/folder/file.md"
            yield "/inside" + "/.." * depth + "/outside/canary.md"
        pieces = ["..", "..", ".", "", "inside", "deeper", "file.md", "outside", "root", "~", "...", "%2e%2e", " "]
        while True:
            names = roll.choices(pieces, k=roll.randint(1, 9))
            names.insert(roll.randint(0, len(names)), "..")
            yield roll.choice(["", "/", "//", "./", "/./"]) + "/".join(names) + roll.choice(["", "/", "/canary.md", "/outside/canary.md"])

    arena.ask_all(paths(), share=SHARES["upwards"], code="path_denied")


def test_encoded_dots_and_slashes(arena: Arena) -> None:
    dots = [
        "%2e",
        "%252e",
        "%c0%ae",
        "\xc0\xae",
        "\uff0e",
        "\u2024",
        "\u2025",
        "\u3002",
        "\ufe52",
        "\u200b.",
        ".\u200b",
        ".\u0300",
        "&#46;",
        "\\u002e",
    ]
    slashes = ["%2f", "%252f", "%c0%af", "\xc0\xaf", "\uff0f", "\u2044", "\u2215", "\u29f8", "&#47;", "%5c", "/"]

    def paths() -> Iterator[str]:
        roll = dice(2)
        while True:
            dot, slash = roll.choice(dots), roll.choice(slashes)
            up = roll.choice([dot * 2, f"{dot}.", f".{dot}", dot]) + slash
            start, end = roll.choice(["", "inside/", "inside/deeper/"]), roll.choice(["canary.md", "folder"])
            yield f"/{start}{up * roll.randint(1, 4)}outside{slash}{end}"

    arena.ask_all(paths(), share=SHARES["encoded"], code=None)


def test_invalid_paths(arena: Arena) -> None:
    def paths() -> Iterator[str]:
        roll = dice(3)
        outside = str(arena.outside)
        while True:
            start = roll.choice(["/", "/inside/", "", "//", "/outside/"])
            yield f"{start}file.md\0{roll.choice(['', '.png', '/../..', outside])}"
            yield f"{start}\0/{roll.choice(['canary.md', 'file.md'])}"
            yield f"{start}{chr(roll.randint(0xD800, 0xDFFF))}{roll.choice(['', '.md', '/canary.md'])}"
            yield start + "n" * roll.randint(256, 3000)
            yield start + "\N{GRINNING FACE}" * roll.randint(64, 300)
            yield start + "d/" * roll.randint(130, 1500) + "canary.md"
            yield start + "x" * roll.choice([4_097, 100_000])
            yield start + roll.choice(
                ["..\\..\\outside\\canary.md", "..\\", "\\", "C:\\outside", "inside\\..\\..\\outside", "\\\\host\\share"]
            )
            yield roll.choice(["~", "~/", "~root/", "/~/", "/~root/.ssh/", "//~/"]) + roll.choice(["", "canary.md", "x"])

    arena.ask_all(paths(), share=SHARES["malformed"], code="path_denied")


def test_paths_of_the_host(arena: Arena) -> None:
    places = [
        str(arena.outside),
        str(arena.base),
        str(arena.root),
        "/etc",
        "/proc/self",
        "/proc/self/root",
        "/proc/1/root",
        "/proc/self/cwd",
    ]
    places += ["/dev", "/dev/fd", "/root/.ssh", "/sys/kernel", "/proc/self/fd", "/var/run", f"/proc/self/root{arena.outside}", "file://"]
    names = ["canary.md", "passwd", "environ", "mem", "zero", "root", "0", "1", "2", "folder/canary.md", "id_rsa", "folder", "maps"]
    paths = (
        f"{start}{place}/{name}{end}"
        for start, end, place, name in itertools.product(["", "/", "//", "/./"], ["", "/", "/."], places, names)
    )
    arena.ask_all(paths, share=SHARES["of the host"], code=None)


def test_links(arena: Arena) -> None:
    targets = {
        "file": arena.outside / "canary.md",
        "picture.png": arena.outside / "picture.png",
        "folder": arena.outside / "folder",
        "up": Path(".."),
        "around": Path("../outside/folder"),
        "dangling": arena.outside / "new.md",
        "itself": arena.root / "itself",
        "ping": arena.root / "pong",
        "pong": arena.root / "ping",
        "slash": Path("/"),
        "host": Path("/proc/self/root"),
        "here": Path("/proc/self/cwd"),
        "descriptors": Path("/proc/self/fd"),
        "environment": Path("/proc/self/environ"),
        "zero": Path("/dev/zero"),
        "within": arena.root / "inside",
        "within.md": arena.root / "inside/file.md",
    }
    for place in (arena.root, arena.root / "inside", arena.root / "inside/deeper"):
        for name, target in targets.items():
            (place / name).symlink_to(target)
    ends = [
        "",
        "/canary.md",
        "/deeper/canary.md",
        "/new.md",
        "/new/new.md",
        "/outside/canary.md",
        "/folder",
        str(arena.outside / "canary.md"),
        "/.",
    ]
    paths = [f"{start}/{name}{end}" for start in ("", "/inside", "/inside/deeper") for name in targets for end in ends]
    arena.ask_all(itertools.cycle(paths), share=SHARES["links"], code="path_denied")
    assert all((arena.root / name).is_symlink() for name in targets)
    for search in (
        arena.backend.glob("**"),
        arena.backend.glob("*"),
        arena.backend.grep("a"),
        arena.backend.grep(""),
        arena.backend.ls("/"),
    ):
        assert arena.searched(search, "everything") is None


def test_hard_links_and_special_files(arena: Arena) -> None:
    names = ["hard.md", "hard.png", "fifo", "socket"]
    (arena.root / "hard.md").hardlink_to(arena.outside / "canary.md")
    (arena.root / "hard.png").hardlink_to(arena.outside / "picture.png")
    os.mkfifo(arena.root / "fifo")
    if os.geteuid() == 0:
        for name, kind, number in (("zero", stat.S_IFCHR, (1, 5)), ("kmsg", stat.S_IFCHR, (1, 11)), ("block", stat.S_IFBLK, (7, 200))):
            os.mknod(arena.root / name, kind | 0o666, os.makedev(*number))
            names.append(name)
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(arena.root)  # the name of a socket has to be short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        operations = ["read", "write", "edit", "delete", "grep", "upload", "download"]
        for name, operation in itertools.cycle(itertools.product(names, operations)):
            error = arena.ask(operation, f"/{name}")
            assert error is not None, (operation, name)
            assert error.startswith("path_denied: "), (operation, name, error)
            if arena.attempts >= SHARES["no plain files"]:
                break
        for result in (arena.backend.ls("/"), arena.backend.glob("*"), arena.backend.grep("a")):
            arena.searched(result, "everything")
    assert all((arena.root / name).exists() for name in names)
    arena.check()


def test_patterns(arena: Arena) -> None:
    for name, target in {"link": arena.outside, "inside/link": arena.outside / "folder", "inside/deeper/up": Path("../../..")}.items():
        (arena.root / name).symlink_to(target)
    roll = dice(7)
    pieces = [
        "..",
        "**",
        "*",
        "?",
        "[.]",
        "[.][.]",
        ".*",
        "{..,inside}",
        "link",
        "outside",
        "canary.md",
        "{a,b}",
        "[!a]*",
        "\\.\\.",
        "/",
        "~",
        "\0",
        "[",
    ]
    while arena.attempts < SHARES["patterns"]:
        pattern = roll.choice(["", "/", "//"]) + "/".join(roll.choices(pieces, k=roll.randint(1, 6)))
        path = roll.choice([None, "/", "/inside", "/inside/deeper"])
        arena.searched(arena.backend.glob(pattern, path), pattern)
        arena.searched(arena.backend.grep("canary", path, pattern), pattern)
    arena.check()


def test_the_root_is_not_deleted(arena: Arena) -> None:
    paths = ["/", "", ".", "./", "//", "///", "/.", "/./", "/.//.", "././."]
    for path in itertools.islice(itertools.cycle(paths), SHARES["the root"]):
        error = arena.ask("delete", path)
        assert error == "path_denied: The root of the scope cannot be deleted.", path
    assert (arena.root / "inside/deeper/file.md").read_text() == "a file inside\n"
    arena.check()


def naive_leaks(path: Path) -> bool:
    """Tell whether somebody who opens by path gets to see the secret: else there is no race to win."""
    for _ in range(200_000):
        with suppress(OSError):
            if CANARY in path.read_text():
                return True
    return False


def test_a_folder_that_is_swapped_for_a_link_in_a_loop(arena: Arena) -> None:
    (arena.root / "link").symlink_to(arena.outside / "folder")
    requests = [
        *(("read", "/inside/file.md"), ("read", "/inside/deeper/file.md"), ("read", "/inside/canary.md"), ("read", "/inside/picture.png")),
        *(("ls", "/inside"), ("ls", "/inside/deeper"), ("glob", "/inside"), ("glob", "/"), ("grep", "/inside"), ("grep", "/")),
        *(("write", "/inside/new.md"), ("write", "/inside/file.md"), ("write", "/inside/deeper/new.md"), ("upload", "/inside/made/new.md")),
        *(("edit", "/inside/canary.md"), ("delete", "/inside/new.md"), ("delete", "/inside/canary.md"), ("delete", "/inside/made")),
        *(("download", "/inside/file.md"), ("download", "/inside/canary.md"), ("read", "/link/canary.md"), ("write", "/link/file.md")),
    ]
    with exchanging((arena.root / "inside", arena.root / "link")):
        assert naive_leaks(arena.root / "inside/canary.md")
        for operation, path in itertools.islice(itertools.cycle(requests), SHARES["exchanged folders"]):
            arena.ask(operation, path)
    assert arena.attempts >= SHARES["exchanged folders"]
    assert 0 < arena.refused < arena.attempts
    arena.check()


def test_a_file_that_is_swapped_for_a_link_in_a_loop(arena: Arena) -> None:
    pairs = [(arena.root / f"{kind}.md", arena.root / f"{kind}-other") for kind in ("soft", "hard", "fifo", "folder")]
    for plain, _ in pairs:
        plain.write_text("a file inside\n")
    (arena.root / "soft-other").symlink_to(arena.outside / "canary.md")
    (arena.root / "hard-other").hardlink_to(arena.outside / "canary.md")
    os.mkfifo(arena.root / "fifo-other")
    (arena.root / "folder-other").symlink_to(arena.outside / "folder")
    asked = [("read", "hard.md"), ("grep", "hard.md"), ("download", "hard.md"), ("grep", ""), ("glob", ""), ("ls", "")]
    asked += [(operation, f"{kind}.md") for kind in ("soft", "fifo", "folder") for operation in ("read", "grep", "download", "edit", "ls")]
    with exchanging(*pairs):
        assert naive_leaks(arena.root / "soft.md")
        for operation, name in itertools.islice(itertools.cycle(asked), SHARES["exchanged files"]):
            arena.ask(operation, f"/{name}")
    assert 0 < arena.refused < arena.attempts
    arena.check()


def test_a_folder_that_is_swapped_for_a_link_while_it_is_deleted(arena: Arena) -> None:
    doomed, link = arena.root / "doomed", arena.root / "doomed-link"

    def cleared() -> bool:
        for path in (doomed, link):
            with suppress(OSError):
                path.unlink() if path.is_symlink() else shutil.rmtree(path)
        return not any(os.path.lexists(path) for path in (doomed, link))

    def prepared() -> None:
        while not cleared():
            pass
        spare = arena.root / "spare"
        (spare / "deeper").mkdir(parents=True)
        for place in (spare, spare / "deeper"):
            for name in ("file.md", "canary.md"):
                (place / name).write_text("a file inside\n")
        spare.rename(doomed)
        link.symlink_to(arena.outside / "folder")

    with exchanging((doomed, link)):
        for _ in range(SHARES["exchanged while deleted"]):
            prepared()
            arena.ask("delete", "/doomed")
    assert 0 < arena.refused < arena.attempts
    arena.check()


def test_the_swap_is_atomic(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").symlink_to("/")
    exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one").is_symlink()
    assert not (tmp_path / "other").is_symlink()


SPARSE = """
import json, re, sys
from pathlib import Path
from interlock_agents.gateway.files.backend import ScopedBackend
from interlock_agents.gateway.files.scope import Scope
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024  # ru_maxrss would be the parent's
before = peak()
backend = ScopedBackend(Scope(Path(sys.argv[1]), writable=True, resolver=sys.argv[2]))
errors = [backend.read("/big.md").error, backend.read("/big.png").error, backend.edit("/big.md", "a", "b").error]
errors += [backend.grep("a", "/big.md").error, backend.download_files(["/big.md"])[0].error]
found = [len(backend.glob("*").matches), len(backend.ls("/").entries), len(backend.grep("a").matches)]
print(json.dumps({"errors": errors, "found": found, "before": before, "peak": peak()}))
"""


def test_a_file_of_five_gigabytes_takes_no_memory(tmp_path: Path, resolver: ResolverName) -> None:
    for name in ("big.md", "big.png"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(5_000_000_000)
    command = [sys.executable, "-c", SPARSE, str(tmp_path), resolver]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    assert all(error.startswith("input_too_large: ") for error in told["errors"])
    assert told["found"] == [2, 2, 0]
    assert told["peak"] < 300
    assert told["peak"] - told["before"] < 20
