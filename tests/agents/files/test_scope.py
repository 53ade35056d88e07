from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.errors import InputTooLarge, InterlockError, ToolUnavailable
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.paths import parts, shown
from interlock_agents.gateway.files.resolvers import ENTER, ResolverName, resolver_named
from interlock_agents.gateway.files.root import Root
from interlock_agents.gateway.files.scope import Scope

CANARY = b"canary of the outside"

OPERATIONS: dict[str, Callable[[Scope, str], object]] = {
    "stat": lambda scope, path: scope.stat(path),
    "entries": lambda scope, path: scope.entries(path),
    "walk": lambda scope, path: list(scope.walk(path)),
    "read": lambda scope, path: scope.read(path),
    "create": lambda scope, path: scope.create(path, b"x"),
    "write": lambda scope, path: scope.write(path, b"x"),
    "delete": lambda scope, path: scope.delete(path),
}
WRITING = ("create", "write", "delete")
OF_FILES = ("read", "write", "delete")

every_operation = pytest.mark.parametrize("operation", OPERATIONS)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary.md").write_bytes(CANARY)
    return outside


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the folder is no real one


# What it does


def test_a_file_is_written_and_read_with_its_folders(scope: Scope, root: Path) -> None:
    scope.write("/a/b/report..final.md", b"text")
    assert scope.read("/a/b/report..final.md") == b"text"
    assert (root / "a/b/report..final.md").read_bytes() == b"text"


def test_equivalent_paths_name_the_same_file(scope: Scope) -> None:
    scope.write("a/b.md", b"text")
    assert [scope.read(path) for path in ("/a/b.md", "//a//b.md", "/./a/./b.md", "a/b.md")] == [b"text"] * 4


def test_a_file_is_replaced_atomically(scope: Scope, root: Path) -> None:
    scope.write("/a.md", b"a long text")
    with (root / "a.md").open("rb") as before:
        scope.write("/a.md", b"short")
        assert before.read() == b"a long text"
    assert scope.read("/a.md") == b"short"
    assert [entry.path for entry in scope.entries("/")] == ["/a.md"]


def test_create_does_not_replace_a_file(scope: Scope) -> None:
    scope.create("/a/b.md", b"first")
    with pytest.raises(FileExistsError):
        scope.create("/a/b.md", b"second")
    assert scope.read("/a/b.md") == b"first"


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o022, 0o177])
def test_new_files_and_folders_are_private(scope: Scope, root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        scope.write("/a/b.md", b"x")
        scope.create("/a/c.md", b"x")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((root / name).stat().st_mode) for name in ("a", "a/b.md", "a/c.md")]
    assert modes == [0o700, 0o600, 0o600]


def test_a_replaced_file_keeps_its_permissions(scope: Scope, root: Path) -> None:
    (root / "a.md").write_bytes(b"x")
    (root / "a.md").chmod(0o4644)
    scope.write("/a.md", b"y")
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == 0o644


def test_a_folder_is_listed_by_name(scope: Scope, root: Path) -> None:
    for name in ("b.md", "a.md", "c/d.md"):
        scope.write(f"/{name}", b"text")
    listed = scope.entries("/")
    assert [(entry.path, entry.is_folder, entry.size) for entry in listed] == [("/a.md", False, 4), ("/b.md", False, 4), ("/c", True, 0)]
    assert listed[0].modified == (root / "a.md").stat().st_mtime
    assert [entry.path for entry in scope.entries("/c")] == ["/c/d.md"]


def test_a_walk_yields_everything(scope: Scope) -> None:
    for path in ("/z.md", "/a/b/c.md", "/a/d.md", "/b/e.md"):
        scope.write(path, b"")
    assert [entry.path for entry in scope.walk("/")] == ["/a", "/b", "/z.md", "/a/b", "/a/d.md", "/a/b/c.md", "/b/e.md"]
    assert [entry.path for entry in scope.walk("/a")] == ["/a/b", "/a/d.md", "/a/b/c.md"]


def test_stat_returns_the_entry_at_a_path(scope: Scope) -> None:
    scope.write("/a/b.md", b"text")
    seen = [scope.stat(path) for path in ("/", "/a", "/a/b.md")]
    assert [(entry.path, entry.is_folder, entry.size) for entry in seen] == [("/", True, 0), ("/a", True, 0), ("/a/b.md", False, 4)]


def test_a_folder_is_deleted_with_its_contents(scope: Scope) -> None:
    for path in ("/a/b/c.md", "/a/d.md", "/a/e/f/g.md", "/kept.md"):
        scope.write(path, b"")
    scope.delete("/a")
    assert [entry.path for entry in scope.walk("/")] == ["/kept.md"]


@every_operation
def test_a_missing_path_raises_file_not_found(scope: Scope, operation: str) -> None:
    if operation in {"create", "write"}:
        return
    for path in ("/no.md", "/no/no.md"):
        with pytest.raises(FileNotFoundError):
            OPERATIONS[operation](scope, path)


@every_operation
def test_a_path_through_a_file_raises_not_a_directory(scope: Scope, operation: str) -> None:
    scope.write("/a.md", b"text")
    with pytest.raises(NotADirectoryError):
        OPERATIONS[operation](scope, "/a.md/b.md")


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("path", ["/", "/a"])
def test_a_folder_cannot_be_read_as_a_file(scope: Scope, operation: str, path: str) -> None:
    scope.write("/a/b.md", b"text")
    with pytest.raises(IsADirectoryError):
        OPERATIONS[operation](scope, path)


# What it refuses


@every_operation
@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../outside/canary.md",
        "/a/../../outside",
        "..",
        "../x",
        "~",
        "~root/x",
        "/~/x",
        "/a\0b",
        "\0",
        "/\ud800.md",
        "/a\udc80",
        "/a\\b",
        "..\\..\\x",
        "/" + "n" * 256,
        "/" + "ü" * 128,
        "/x" * 129,
        "/" + "nnn/" * 1500,
    ],
)
def test_an_invalid_path_is_denied(scope: Scope, operation: str, path: str, outside: Path) -> None:
    with pytest.raises(PathDenied):
        OPERATIONS[operation](scope, path)
    with pytest.raises(PathDenied):
        parts(path)  # also where the disk would take it


@pytest.mark.parametrize(
    "name", ["n" * 255, "report..final.md", "...", "..a", "a..", "a~", "~a", " ", "\n", "%2e%2e", ".\u200b.", "ü" * 127]
)
def test_unusual_names_are_legal(scope: Scope, root: Path, name: str) -> None:
    scope.write(f"/in/{name}", b"text")
    assert scope.read(f"/in/{name}") == b"text"
    assert [entry.path for entry in scope.entries("/in")] == [f"/in/{name}"]
    assert os.listdir(root / "in") == [name]  # noqa: PTH208 - as it is on the disk


@every_operation
def test_links_are_not_followed(scope: Scope, root: Path, outside: Path, operation: str) -> None:
    scope.write("/inside/file.md", b"x")
    links = {
        "file": outside / "canary.md",
        "folder": outside,
        "dangling": outside / "new.md",
        "loop": root / "loop",
        "proc": Path("/proc/self/root"),
        "inside-file": root / "inside/file.md",
        "inside-folder": root / "inside",
        "relative": Path("inside/file.md"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    paths = [f"/{name}" for name in links] + [
        "/folder/canary.md",
        "/folder/new.md",
        "/folder/new/new.md",
        "/inside-folder/file.md",
        "/proc/etc",
    ]
    for path in paths:
        if operation == "create" and path.removeprefix("/") in links:
            with pytest.raises(FileExistsError):
                scope.create(path, b"x")
        else:
            with pytest.raises(PathDenied):
                OPERATIONS[operation](scope, path)
    assert all((root / name).is_symlink() for name in links)
    assert [child.name for child in outside.iterdir()] == ["canary.md"]
    assert (outside / "canary.md").read_bytes() == CANARY
    assert (root / "inside/file.md").read_bytes() == b"x"


def test_links_are_not_listed(scope: Scope, root: Path, outside: Path) -> None:
    (root / "file").symlink_to(outside / "canary.md")
    (root / "folder").symlink_to(outside)
    (root / "hard.md").hardlink_to(outside / "canary.md")
    os.mkfifo(root / "fifo")
    (root / "back\\slash").write_bytes(b"")
    (root / "~home").write_bytes(b"")
    (root / os.fsdecode(b"no\xfftext")).write_bytes(b"")
    assert scope.entries("/") == list(scope.walk("/")) == []


@pytest.mark.parametrize("names", [("..",), ("in", "..", ".."), ("/etc",), ("../outside",), ("in", "../..")])
def test_a_resolver_does_not_leave_the_folder(root: Path, outside: Path, resolver: ResolverName, names: tuple[str, ...]) -> None:
    (root / "in").mkdir()
    folder = os.open(root, ENTER)
    with pytest.raises(OSError, match="cross-device"):
        resolver_named(resolver, folder).folder(folder, names, ENTER)
    os.close(folder)


@pytest.mark.parametrize("operation", OF_FILES)
def test_a_file_with_a_second_hard_link_is_denied(scope: Scope, root: Path, outside: Path, operation: str) -> None:
    (root / "hard.md").hardlink_to(outside / "canary.md")
    with pytest.raises(PathDenied):
        OPERATIONS[operation](scope, "/hard.md")
    assert (outside / "canary.md").read_bytes() == CANARY
    assert (outside / "canary.md").stat().st_nlink == 2


@pytest.mark.parametrize("operation", OF_FILES)
def test_fifos_sockets_and_devices_are_denied(scope: Scope, root: Path, operation: str) -> None:
    os.mkfifo(root / "fifo")
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(root)  # the name of a socket has to be short
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        kinds = ["fifo", "socket"]
        if os.geteuid() == 0:
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            kinds.append("zero")
        for kind in kinds:
            with pytest.raises(PathDenied):
                OPERATIONS[operation](scope, f"/{kind}")
            assert (root / kind).exists()


def test_a_file_that_is_replaced_between_check_and_open_is_denied(
    scope: Scope, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope.write("/plain.md", b"x")
    status = (root / "plain.md").stat()
    os.mkfifo(root / "fifo")
    (root / "hard.md").write_bytes(CANARY)
    (root / "second.md").hardlink_to(root / "hard.md")
    (root / "link.md").symlink_to(outside / "canary.md")
    monkeypatch.setattr("interlock_agents.gateway.files.scope._looked_at", lambda *_: status)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    for path in ("/fifo", "/hard.md", "/link.md"):
        with pytest.raises(PathDenied):
            scope.read(path)


def test_a_folder_that_contains_a_link_is_not_deleted(scope: Scope, root: Path, outside: Path) -> None:
    makers: list[Callable[[Path], None]] = [
        lambda path: path.symlink_to(outside),
        lambda path: path.hardlink_to(outside / "canary.md"),
        os.mkfifo,
    ]
    for number, make in enumerate(makers):
        scope.write(f"/{number}/a/plain.md", b"x")
        make(root / f"{number}/a/other")
        with pytest.raises(PathDenied):
            scope.delete(f"/{number}")
        assert {child.name for child in (root / f"{number}/a").iterdir()} == {"plain.md", "other"}
    assert (outside / "canary.md").read_bytes() == CANARY


@pytest.mark.parametrize("path", ["/", "", ".", "//", "/./."])
def test_the_root_is_not_deleted(scope: Scope, root: Path, path: str) -> None:
    scope.write("/a.md", b"x")
    with pytest.raises(PathDenied):
        scope.delete(path)
    assert (root / "a.md").exists()


@pytest.mark.parametrize("operation", WRITING)
def test_a_read_only_scope_is_not_written(root: Path, resolver: ResolverName, operation: str) -> None:
    (root / "a.md").write_bytes(b"x")
    scope = Scope(root, writable=False, resolver=resolver)
    for path in ("/a.md", "/b.md", "/new/c.md"):
        with pytest.raises(PathDenied):
            OPERATIONS[operation](scope, path)
    assert scope.read("/a.md") == b"x"
    assert [child.name for child in root.iterdir()] == ["a.md"]
    scope.close()


@pytest.mark.parametrize(
    ("operation", "path"), [("stat", "/proc/version"), ("read", "/proc/version"), ("entries", "/proc"), ("walk", "/proc/sys")]
)
def test_another_filesystem_is_not_entered(resolver: ResolverName, operation: str, path: str) -> None:
    scope = Scope(Path("/"), writable=False, resolver=resolver)
    with pytest.raises(PathDenied, match="another filesystem"):
        OPERATIONS[operation](scope, path)
    scope.close()


# What it bounds


def test_a_file_over_the_limit_is_not_read(scope: Scope, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope.write("/most.bin", bytes(10_000))
    assert len(scope.read("/most.bin")) == 10_000
    with (root / "large.bin").open("wb") as file:
        file.truncate(10_001)
    monkeypatch.setattr("os.read", None)  # it is refused before
    with pytest.raises(InputTooLarge):
        scope.read("/large.bin")


def test_a_file_that_grows_while_it_is_read_is_rejected(scope: Scope, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope.write("/grows.bin", bytes(9_000))
    read, seen = os.read, [0]

    def growing(descriptor: int, size: int) -> bytes:
        with (root / "grows.bin").open("ab") as file:
            file.write(bytes(1_000))
        data = read(descriptor, size)
        seen[0] += len(data)
        return data

    monkeypatch.setattr("os.read", growing)
    with pytest.raises(InputTooLarge):
        scope.read("/grows.bin")
    assert seen[0] <= 10_001


@pytest.mark.parametrize("operation", ["create", "write"])
def test_content_over_the_limit_is_not_written(scope: Scope, root: Path, operation: str) -> None:
    with pytest.raises(InputTooLarge):
        getattr(scope, operation)("/new/a.bin", bytes(10_001))
    assert list(root.iterdir()) == []


def test_a_folder_with_too_many_entries_is_rejected(scope: Scope, root: Path) -> None:
    for number in range(100):
        (root / f"{number}.md").write_bytes(b"")
    assert len(scope.entries("/")) == len(list(scope.walk("/"))) == 100
    (root / "one-more").mkdir()
    with pytest.raises(InputTooLarge):
        scope.entries("/")
    walked = scope.walk("/")
    assert sum(1 for _ in zip(range(100), walked, strict=False)) == 100
    with pytest.raises(InputTooLarge):
        next(walked)


def test_a_walk_counts_skipped_entries(scope: Scope, root: Path) -> None:
    for number in range(101):
        (root / f"{number}").symlink_to("/")
    with pytest.raises(InputTooLarge):
        list(scope.walk("/"))


def test_a_folder_with_too_many_entries_is_not_partly_deleted(scope: Scope, root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    for number in range(100):
        (root / f"a/b/{number}.md").write_bytes(b"")
    with pytest.raises(InputTooLarge):
        scope.delete("/a")
    assert len(list((root / "a/b").iterdir())) == 100
    (root / "a/b/0.md").unlink()
    scope.delete("/a")
    assert list(root.iterdir()) == []


def test_very_deep_folders_are_handled(root: Path, resolver: ResolverName) -> None:
    beside = [root / f"d/{number}.md" for number in range(20)]
    (root / "d").mkdir()
    for path in beside:
        path.write_bytes(b"")
    at = os.open(root / "d", os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    scope = Scope(root, writable=True, resolver=resolver)
    before = descriptors()
    assert 100 < len(list(scope.walk("/"))) < 300
    with pytest.raises(InputTooLarge):
        scope.delete("/d")
    assert descriptors() == before
    assert all(path.exists() for path in beside)
    scope.close()


# How it fails


def test_a_failed_write_leaves_no_file(scope: Scope, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope.write("/a.md", b"before")

    def full(_descriptor: int, _data: memoryview) -> int:
        raise OSError(28, "No space left on device", str(root))

    monkeypatch.setattr("os.write", full)
    for write in (scope.write, scope.create):
        with pytest.raises(InterlockError) as caught:
            write(f"/{write.__name__}.md", b"after")
        assert caught.value.code == "store_full"
    with pytest.raises(InterlockError):
        scope.write("/a.md", b"after")
    monkeypatch.undo()
    assert [child.name for child in root.iterdir()] == ["a.md"]
    assert scope.read("/a.md") == b"before"


def test_no_descriptor_is_left_open(scope: Scope, root: Path, outside: Path) -> None:
    (root / "link").symlink_to(outside)
    os.mkfifo(root / "fifo")
    scope.write("/a/b/c.md", b"x")
    before = descriptors()
    for path in ("/a/b/c.md", "/a", "/no/no", "/link/canary.md", "/link", "/fifo", "/a/b/c.md/d", "/", "/new/file.md", "/.."):
        for operation in OPERATIONS.values():
            try:
                operation(scope, path)
            except (InterlockError, OSError):
                continue
    walk = scope.walk("/")
    next(walk)
    del walk
    assert descriptors() == before


def test_a_closed_scope_refuses_every_operation(scope: Scope) -> None:
    scope.write("/a.md", b"x")
    scope.close()
    scope.close()
    for operation in OPERATIONS.values():
        with pytest.raises(ToolUnavailable):
            operation(scope, "/a.md")


def test_running_operations_finish_before_the_folder_is_closed(scope: Scope, root: Path) -> None:
    scope.write("/a/b.md", b"x")
    walk = scope.walk("/")
    assert next(walk).path == "/a"
    scope.close()
    assert [entry.path for entry in walk] == ["/a/b.md"]
    held = Root(root)
    with held.lent() as descriptor:
        held.close()
        os.fstat(descriptor)  # its number is not somebody else's yet
        with pytest.raises(ToolUnavailable, match="closed"), held.lent():
            pass
        os.fstat(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_missing_folder_is_unavailable(tmp_path: Path, resolver: ResolverName) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("no", "file"):
        with pytest.raises(ToolUnavailable) as caught:
            Scope(tmp_path / name, writable=True, resolver=resolver)
        assert str(tmp_path) not in str(caught.value)


def test_a_renamed_folder_is_still_used(scope: Scope, root: Path, outside: Path) -> None:
    scope.write("/a.md", b"x")
    moved = root.rename(root.parent / "moved")
    root.symlink_to(outside)
    assert scope.read("/a.md") == b"x"
    scope.write("/b.md", b"y")
    assert {child.name for child in moved.iterdir()} == {"a.md", "b.md"}


def test_concurrent_writes_do_not_mix(scope: Scope) -> None:
    texts = [bytes([letter]) * 5_000 for letter in b"abcd"]
    torn: list[bytes] = []

    def work(text: bytes) -> None:
        for _ in range(50):
            scope.write("/shared/a.md", text)
            if (seen := scope.read("/shared/a.md")) not in texts:
                torn.append(seen)

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
    assert [entry.path for entry in scope.walk("/")] == ["/shared", "/shared/a.md"]


@given(path=st.text(st.characters() | st.sampled_from("./~\\\0\ud800"), max_size=300))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_operation_leaves_the_folder_or_shows_its_path(scope: Scope, root: Path, path: str) -> None:
    for name, operation in OPERATIONS.items():
        says = ""
        try:
            operation(scope, path)
        except (InterlockError, OSError) as error:
            says = str(error)
        assert str(root.parent) not in says, name
        assert says.isprintable(), name
    assert [child.name for child in root.parent.iterdir()] == [root.name]


@given(path=st.text(st.characters() | st.sampled_from("./~\\\0"), max_size=300))
def test_any_path_is_denied_or_inside_the_folder(path: str) -> None:
    assert len(shown(path)) <= 82
    try:
        names = parts(path)
    except PathDenied:
        return
    assert all(name not in {"", ".", ".."} and "/" not in name and "\0" not in name for name in names)
    assert "/".join(names) == "/".join(name for name in path.split("/") if name not in {"", "."})
