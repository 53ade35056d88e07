from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol

from interlock.errors import ToolTimeout
from interlock_agents.gateway.files.backend import ScopedBackend
from interlock_agents.gateway.files.patterns import NamePattern
from interlock_agents.gateway.files.scope import Scope


@pytest.fixture
def backend(root: Path) -> Iterator[ScopedBackend]:
    scope = Scope(root, writable=True, max_bytes=1_000_000, max_entries=500)
    yield ScopedBackend(scope)
    scope.close()


def test_the_backend_cannot_execute_commands(backend: ScopedBackend) -> None:
    assert not isinstance(backend, SandboxBackendProtocol)
    assert not hasattr(backend, "execute")


def test_two_dots_in_a_name_are_legal(backend: ScopedBackend) -> None:
    assert backend.write("/report..final.md", "text").error is None
    assert backend.read("/report..final.md").file_data == {"content": "text", "encoding": "utf-8"}
    assert [match["path"] for match in backend.glob("*..*").matches or []] == ["/report..final.md"]


def test_a_read_only_scope_rejects_every_change(root: Path) -> None:
    (root / "a.md").write_text("text")
    backend = ScopedBackend(Scope(root, writable=False))
    errors = [backend.write("/b.md", "x").error, backend.edit("/a.md", "text", "x").error, backend.delete("/a.md").error]
    errors.append(backend.upload_files([("/a.md", b"x")])[0].error)
    assert all(str(error).startswith("path_denied: ") and "is read-only" in str(error) for error in errors)
    assert (root / "a.md").read_text() == "text"


def test_an_edit_over_the_limit_is_rejected_before_replacing(backend: ScopedBackend, root: Path) -> None:
    (root / "a.md").write_text("a" * 900_000)
    began = time.process_time()
    assert str(backend.edit("/a.md", "a", "b" * 900_000, True).error).startswith("input_too_large: ")
    assert str(backend.write("/b.md", "b" * 1_000_001).error).startswith("input_too_large: ")
    assert time.process_time() - began < 10
    assert (root / "a.md").read_text() == "a" * 900_000


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("{a,b}" * 12, "tool_input_invalid"),
        ("{1..99999999}", "tool_input_invalid"),
        ("*a" * 600, "input_too_large"),
        ("{1..999}" + "[a-z]" * 180, "input_too_large"),
        ("../*.md", "path_denied"),
        ("docs\\..\\*", "path_denied"),
    ],
)
def test_unusable_patterns_are_rejected(backend: ScopedBackend, root: Path, pattern: str, code: str) -> None:
    (root / ("a" * 200)).write_text("text")
    for result in (backend.glob(pattern), backend.grep("text", glob=pattern)):
        assert not result.matches
        assert str(result.error).startswith(f"{code}: ")


def test_an_exponential_pattern_is_stopped(backend: ScopedBackend) -> None:
    backend.write("a/" * 100 + "c", "text")  # as deep as it may be
    pattern = "**/*a/" * 40 + "b"  # much longer than the limit on any machine
    began = time.process_time()
    for result in (backend.glob(pattern), backend.grep("text", glob=pattern)):
        assert str(result.error).startswith("tool_timeout: ")
    assert time.process_time() - began < 10


def test_a_pattern_is_not_matched_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 1.0)
    monkeypatch.setattr("interlock_agents.gateway.files.patterns.time", clock)
    pattern = NamePattern("{b,a}", until=2.0)
    assert pattern.matches("b")
    clock.monotonic = lambda: 3.0
    for name in ("b", "a"):
        with pytest.raises(ToolTimeout):
            pattern.matches(name)


def test_a_search_ends_at_its_deadline(backend: ScopedBackend, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock_agents.gateway.files.search._SECONDS", -1.0)
    (root / "a.md").write_text("text\n" * 5_000)
    assert backend.glob("*").error == "tool_timeout: The pattern '*' takes too long to match." or backend.glob("*").truncated
    assert backend.grep("text").truncated
    assert backend.grep("text", "/a.md").truncated
    assert len(backend.grep("text", "/a.md").matches or []) < 5_000
    (root / "a.md").write_text("text")
    assert (backend.grep("text").matches, backend.grep("text").truncated) == ([], True)


def test_a_search_in_too_many_files_is_truncated(backend: ScopedBackend, root: Path) -> None:
    for number in range(501):
        (root / f"{number}.md").write_text("text")
    globbed, grepped = backend.glob("*.md"), backend.grep("text")
    assert (len(globbed.matches or []), globbed.truncated, globbed.truncation_reason) == (500, True, "budget")
    assert (len(grepped.matches or []), grepped.truncated) == (500, True)
    assert str(backend.ls("/").error).startswith("input_too_large: ")


def test_matching_lines_are_limited_in_number_and_size(backend: ScopedBackend, root: Path) -> None:
    (root / "many.md").write_text("x\n" * 20_000)
    many = backend.grep("x")
    assert (len(many.matches or []), many.truncated) == (10_000, True)
    (root / "many.md").unlink()
    for number in range(5):
        (root / f"{number}.md").write_text("y" * 300_000)
    long = backend.grep("y")
    assert (len(long.matches or []), long.truncated) == (3, True)


def test_the_bytes_read_by_a_search_are_limited(backend: ScopedBackend, root: Path) -> None:
    for number in range(25):
        with (root / f"{number:02}.md").open("wb") as file:
            file.write(b"first line\n")
            file.truncate(1_000_000)
    found = backend.grep("first")
    assert (len(found.matches or []), found.truncated) == (20, True)


def test_a_search_skips_files_over_the_limit(backend: ScopedBackend, root: Path) -> None:
    with (root / "large.md").open("wb") as file:
        file.write(b"needle\n")
        file.truncate(25_000_000)  # more than all that is read for a search
    (root / "small.md").write_text("needle\n")
    found = backend.grep("needle")
    assert [match["path"] for match in found.matches or []] == ["/small.md"]
    assert not found.truncated
    assert str(backend.grep("needle", "/large.md").error).startswith("input_too_large: ")


def test_errors_of_the_system_show_no_host_path(backend: ScopedBackend, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.md").write_text("text")

    def broken(*_arguments: object, **_named: object) -> int:
        raise OSError(5, "Input/output error", str(root))

    monkeypatch.setattr("os.scandir", broken)
    monkeypatch.setattr("os.read", broken)
    monkeypatch.setattr("os.write", broken)
    monkeypatch.setattr("os.unlink", broken)
    errors = [backend.ls("/").error, backend.read("/a.md").error, backend.write("/b.md", "x").error, backend.delete("/a.md").error]
    errors += [backend.glob("*").error, backend.grep("x").error, backend.grep("x", "/a.md").error, backend.edit("/a.md", "t", "x").error]
    assert all(str(error).startswith("tool_unavailable: ") for error in errors)
    assert not any(str(root) in str(error) or root.name in str(error) for error in errors)


def test_a_search_names_files_that_cannot_be_read(backend: ScopedBackend, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.md").write_text("text")

    def broken(*_arguments: object) -> bytes:
        raise OSError(5, "Input/output error", str(root))

    monkeypatch.setattr("os.read", broken)
    result = backend.grep("text")
    assert (result.matches, result.error) == ([], "Some files were searched only in part:\n- /a.md: tool_unavailable")


@pytest.mark.parametrize("value", [None, 7, b"/a.md", ["/"]])
def test_an_argument_of_another_type_is_an_error(backend: ScopedBackend, value: object) -> None:
    wrong: str = value  # pyright: ignore[reportAssignmentType]
    results = [backend.ls(wrong), backend.read(wrong), backend.write(wrong, "x"), backend.delete(wrong), backend.write("/a.md", wrong)]
    results += [
        *backend.upload_files([(wrong, b"x")]),
        *backend.download_files([wrong]),
        backend.glob(wrong),
        backend.edit(wrong, "a", "b"),
    ]
    assert all(result.error for result in results)
