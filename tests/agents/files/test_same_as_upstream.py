"""What deepagents' own backend does with a plain tree is what ours does with it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import deepagents.backends.utils as upstream_utils
import pytest
from deepagents.backends.filesystem import FilesystemBackend
from deepagents.backends.protocol import GlobResult, GrepResult, LsResult

from interlock_agents.gateway.files.backend import BINARY_SUFFIXES, ScopedBackend
from interlock_agents.gateway.files.resolvers import ResolverName
from interlock_agents.gateway.files.scope import Scope

FOLDERS = ["", "docs", "docs/deep/er", "with space", "ünïcødé/日本", ".hidden", "dots.in.name", "src/pkg", "a/b/c/d/e/f"]
NAMES = [
    "readme",
    "with space",
    "ünï",
    "日本語",
    "many.dots.here",
    ".dot",
    "UPPER",
    "[brackets]",
    "{braces}",
    "star*",
    "quo'te",
    "tail~",
    "#x",
]
SUFFIXES = [".md", ".txt", ".py", "", ".json", ".png", ".PDF", ".mkv", ".md.bak"]
WORDS = ["needle", "Needle", "hay", "naïve", "日本", "a.*b", "x|y", "\t", "  "]
CONTENTS = [
    "",
    " \n\n",
    "one line",
    "one line\n",
    "crlf\r\nneedle\r\nend",
    "old mac\rneedle\rend",
    "form\x0cfeed\nneedle\x85next\u2028needle\n",
]
BINARY = [b"\x89PNG\r\n\x1a\n\x00\xff", b"\xff\xfe\x00needle", b"needle\n" * 3000 + b"\xff\xff", bytes(range(256))]


def _content(random_: random.Random, number: int) -> bytes:
    if number < len(CONTENTS):
        return CONTENTS[number].encode()
    if number < len(CONTENTS) + len(BINARY):
        return BINARY[number - len(CONTENTS)]
    if number % 25 == 0:
        return ("needle " * 3000 + "\n" + "x" * 20_000).encode()
    lines = [" ".join(random_.choices(WORDS, k=random_.randint(0, 8))) for _ in range(random_.randint(1, 60))]
    return ("\n".join(lines) + random_.choice(["", "\n", "\n\n"])).encode()


def _grown(folder: Path, count: int = 200) -> list[str]:
    random_ = random.Random(20)  # noqa: S311 - the same tree every time
    places = [f"{where}/{name}{suffix}" for where in FOLDERS for name in NAMES for suffix in SUFFIXES]
    chosen = random_.sample(places, count)
    for number, place in enumerate(chosen):
        path = folder / place.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_content(random_, number))
    (folder / "empty folder").mkdir()
    return [f"/{place.lstrip('/')}" for place in chosen]


class Pair:
    """Two copies of a tree, one for each backend."""

    def __init__(self, folder: Path, resolver: ResolverName) -> None:
        self.files = _grown(folder / "theirs")
        shutil.copytree(folder / "theirs", folder / "ours")  # with the times
        self.folders = ["/", *(f"/{path.relative_to(folder / 'ours')}" for path in (folder / "ours").rglob("*") if path.is_dir())]
        self._folder = folder
        self.scope = Scope(folder / "ours", writable=True, resolver=resolver)
        self.ours = ScopedBackend(self.scope)
        self.theirs = FilesystemBackend(folder / "theirs", virtual_mode=True)

    def on_disk(self, name: str) -> dict[str, bytes | None]:
        root = self._folder / name
        return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}

    def same_disks(self) -> bool:
        return self.on_disk("ours") == self.on_disk("theirs")


@pytest.fixture
def pair(tmp_path: Path, resolver: ResolverName) -> Iterator[Pair]:
    pair = Pair(tmp_path, resolver)
    yield pair
    pair.scope.close()


def _sorted(result: GrepResult) -> dict[str, object]:
    matches = sorted(result.matches or [], key=lambda match: (match["path"], match["line"]))
    return asdict(replace(result, matches=matches, error="some" if result.error else None))


def _undated(result: LsResult | GlobResult) -> dict[str, object]:
    infos = (result.entries if isinstance(result, LsResult) else result.matches) or []
    plain: dict[str, object] = asdict(result)
    return plain | {"infos": [{**info, "modified_at": ""} for info in infos], "entries": None, "matches": None}


def test_the_test_tree_has_all_kinds_of_files(pair: Pair) -> None:
    assert len(pair.files) == 200
    assert pair.same_disks()


def test_ls(pair: Pair) -> None:
    for folder in [*pair.folders, "docs", "/docs/", "//docs", "/no", *pair.files[:20]]:
        assert pair.ours.ls(folder) == pair.theirs.ls(folder), folder


def test_read(pair: Pair) -> None:
    windows = [(0, 2000), (0, 1), (1, 2), (5, 10), (10_000, 5), (-3, 4), (0, 0), (2, -1)]
    for path in [*pair.files, *(path.lstrip("/") for path in pair.files[:5]), *pair.folders, "/no.md", "/no/no.md"]:
        for offset, limit in windows:
            ours, theirs = pair.ours.read(path, offset, limit), pair.theirs.read(path, offset, limit)
            if theirs.error and "codec" in theirs.error:
                assert ours == replace(theirs, error=ours.error)
                assert str(ours.error).startswith("input_encoding: ")
            else:
                assert ours == theirs, path
    assert [response.content for response in pair.ours.download_files(pair.files)] == [
        response.content for response in pair.theirs.download_files(pair.files)
    ]
    strange = ["/no.md", *pair.folders]
    assert pair.ours.download_files(strange) == pair.theirs.download_files(strange)


def test_binary_suffixes_match_upstream() -> None:
    table: dict[str, str] = getattr(upstream_utils, "_EXTENSION_TO_FILE_TYPE")  # noqa: B009 - private: a test may look
    extra: frozenset[str] = getattr(upstream_utils, "_VIDEO_EXTRA_EXTENSIONS")  # noqa: B009 - likewise
    assert frozenset(table) | extra == BINARY_SUFFIXES


def test_write(pair: Pair) -> None:
    texts = ["", "text", "two\nlines\n", "crlf\r\n", "日本\u2028"]
    paths = [*pair.files[:30], "/new.md", "/new/deep/er.md", "relative.md", "/with space/new file.md", "/docs//double.md"]
    for number, path in enumerate(paths):
        text = texts[number % len(texts)]
        assert pair.ours.write(path, text) == pair.theirs.write(path, text)
    uploads = [("/up/a.bin", b"\x00\xff"), (pair.files[0], b"again"), ("/docs", b"a folder")]
    assert pair.ours.upload_files(uploads) == pair.theirs.upload_files(uploads)
    assert pair.ours.write("/docs", "x").error
    assert pair.theirs.write("/docs", "x").error
    assert pair.ours.write("/relative.md/x", "x").error
    assert pair.theirs.write("/relative.md/x", "x").error
    assert pair.ours.write("/surrogate.md", "\ud800").error == "input_encoding: The text for '/surrogate.md' is not valid text."
    (pair.theirs.cwd / "surrogate.md").unlink(missing_ok=True)
    assert pair.same_disks()


def test_edit(pair: Pair) -> None:
    edits = [
        ("needle", "pin", False),
        ("needle", "pin", True),
        ("hay", "", True),
        ("naïve", "naïve naïve", True),
        ("no such text", "x", False),
    ]
    edits += [("", "x", True), ("one line", "another\r\nline", False), ("end\n", "start\n", False), ("needle\r\nend", "x", False)]
    for number, path in enumerate([*pair.files, *pair.files, "/no.md", "/docs", "/"]):
        old, new, everywhere = edits[number % len(edits)]
        ours, theirs = pair.ours.edit(path, old, new, everywhere), pair.theirs.edit(path, old, new, everywhere)
        if theirs.error and "codec" in theirs.error:
            assert str(ours.error).startswith("input_encoding: ")
        else:
            assert ours == theirs, path
    assert pair.same_disks()


def test_delete(pair: Pair) -> None:
    for path in [*pair.files[:50], "/docs", "/a/b", "/no.md", "/ünïcødé/日本", "/with space/", "empty folder", *pair.files[:5]]:
        assert pair.ours.delete(path) == pair.theirs.delete(path), path
    assert pair.same_disks()


def test_glob(pair: Pair) -> None:
    patterns = [
        "*",
        "*.md",
        "**/*.md",
        "**",
        "docs/**",
        "docs/*.md",
        "/*.md",
        "*.{md,txt}",
        "**/*.{py,json}",
        "?eadme.*",
        "[rw]*",
        "[!r]*",
        ".*",
    ]
    patterns += [
        "**/.*",
        ".hidden/*",
        "ünï*",
        "日本*",
        "**/日本/*",
        "*with space*",
        "a/**/f/*",
        "*.m?",
        "\\[brackets\\]*",
        "[[]brackets]*",
        "{a,b",
        "[",
    ]
    patterns += [
        "",
        "/",
        "*/",
        "no such",
        "{{a,d}ocs,src}/**/*.md",
        "*~*",
        "{1..3}",
        "[[:upper:]]*",
        "**/deep/**/*",
        "!*.md",
        "*.md.bak",
        "star\\**",
    ]
    for pattern in patterns:
        for path in (None, "/", "/docs", "docs", "/.hidden", "/ünïcødé", "/no", pair.files[0]):
            assert _undated(pair.ours.glob(pattern, path)) == _undated(pair.theirs.glob(pattern, path)), (pattern, path)
    assert pair.ours.glob("*") == pair.theirs.glob("*")


@pytest.mark.parametrize("pattern", ["../*.md", "docs/../../*", "{a,b}" * 12, "..\\*"])
def test_a_pattern_that_upstream_refuses_is_refused(pair: Pair, pattern: str) -> None:
    for backend in (pair.ours, pair.theirs):
        assert backend.glob(pattern).error
        assert backend.glob(pattern).matches is None
        assert backend.grep("needle", glob=pattern).error


def test_grep(pair: Pair) -> None:
    texts = ("needle", "Needle", "a.*b", "x|y", "日本", "naïve", "", "\n", "no such text", "needle\nend", "\x85", "one line")
    paths = (None, "/", "/docs", "with space", "/.hidden", "/no")
    globs = (None, "", "*.md", "**/*.md", "docs/*", "*.{md,txt}", "[r]*", ".*")
    searches = [(text, path, None) for text in texts for path in paths[2:]] + [("needle", path, glob) for path in paths for glob in globs]
    for text, path, glob in searches:
        assert _sorted(pair.ours.grep(text, path, glob)) == _sorted(pair.theirs.grep(text, path, glob)), (text, path, glob)


def test_grep_with_a_glob(pair: Pair) -> None:
    clean = "/docs"
    total = len(pair.theirs.grep("needle", clean).matches or [])
    assert total > 20
    for most in (0, 1, 7, total - 1, total, total + 1):
        ours, theirs = pair.ours.grep("needle", clean, max_count=most), pair.theirs.grep("needle", clean, max_count=most)
        assert (len(ours.matches or []), ours.truncated) == (len(theirs.matches or []), theirs.truncated), most


def test_grep_in_one_file(pair: Pair) -> None:
    for path in pair.files[::4]:
        theirs = [match for match in pair.theirs.grep("needle", path).matches or [] if match["path"] == path]
        assert (pair.ours.grep("needle", path).matches or []) == theirs, path


async def test_the_synchronous_and_asynchronous_methods_agree(pair: Pair) -> None:
    path = pair.files[12]
    assert await pair.ours.als("/docs") == pair.ours.ls("/docs")
    assert await pair.ours.aread(path) == pair.ours.read(path)
    assert await pair.ours.aglob("*.md") == pair.ours.glob("*.md")
    assert await pair.ours.agrep("needle", max_count=3) == pair.ours.grep("needle", max_count=3)
    assert await pair.ours.awrite("/new.md", "x") == await pair.theirs.awrite("/new.md", "x")
    assert await pair.ours.aedit("/new.md", "x", "y") == await pair.theirs.aedit("/new.md", "x", "y")
    assert await pair.ours.adownload_files(["/new.md"]) == await pair.theirs.adownload_files(["/new.md"])
    assert await pair.ours.aupload_files([("/u.md", b"u")]) == await pair.theirs.aupload_files([("/u.md", b"u")])
    assert await pair.ours.adelete("/new.md") == await pair.theirs.adelete("/new.md")
    assert pair.same_disks()
