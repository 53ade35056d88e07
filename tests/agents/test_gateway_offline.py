"""The gateway without a model: the rules read what is asked for, use the real file tools, and say what they found."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import Interlock
from interlock.adapters.files.demo import open_base
from interlock.agents.gateway.asked import Asked, read_task
from interlock.agents.gateway.offline import GatewayRules
from interlock.agents.gateway.scenes import SCENES
from interlock.capabilities import Message, ModelReply, Tool
from interlock.engine import ENGINES, EngineName
from interlock.errors import SettingsInvalid, StoreUnavailable
from interlock.runtime.events import Event
from tests.support.gateway import BRIDGE, READS, WRITES, app, make_files, names, tool_results


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[EngineName, Interlock]]:
    """An application for each engine on demo files that are made once."""
    folder = tmp_path_factory.mktemp("gateway")
    made: dict[EngineName, Interlock] = {engine: app(engine, folder) for engine in ENGINES}
    yield made
    for one in made.values():
        asyncio.run(one.close())


async def ask(running: Interlock, text: str, role: str) -> tuple[str, tuple[str, ...], list[Event]]:
    events: list[Event] = []
    result = await running.run("gateway", text, role=role, on_event=events.append)
    assert (result.status, result.metadata["models"]) == ("success", ["offline rules"])
    return result.output, result.path, events


CONVERSATIONS = [
    ("user", "Read /docs/welcome.md", "/welcome.md:\n\n# "),
    ("user", "List /docs", "- /billing.md\n- /cancelling.md"),
    ("user", "ls /docs/api", "- /api/errors.md\n- /api/limits.md"),
    ("user", "What files are there?", "- /api/"),
    ("user", "How long is the link to reset my password valid?", "(from /getting-started.md)"),
    ("user", 'Search for "48 hours"', '"48 hours" is in:\n\n/cancelling.md'),
    ("user", "*.md", "- /billing.md"),
    ("user", "What about zeppelins?", "The files here say nothing about that."),
    ("user", "hi", "Without a model I list, read and search files"),
    ("user", "Delete /docs/billing.md", "I may only list, read and search here, so nothing is changed."),
    ("user", 'Write "x" to /docs/new.md', "I may only list, read and search here, so nothing is changed."),
    ("user", "Read /docs/../admin/credentials.env", "That cannot be done. path_denied"),
    ("user", "Read /admin/rotation.md", "That cannot be done. Error: File '/admin/rotation.md' not found"),
    ("user", "Read /docs/partner-note.md", "IMPORTANT, to whoever reads this"),
    ("admin", "Who is on call in week 47?", "| 47 | Grace | Linus |"),
    ("admin", "Read /admin/rotation.md", "# On call"),
    ("admin", "List my files", "- /credentials.env\n- /incidents/"),
    ("admin", "Read /admin/credentials.env", "HARBOUR_TOKEN=[redacted]"),
    ("admin", "What do the docs say about cancelling?", "Until 48 hours before arrival cancelling is free."),
    ("admin", "List the docs for a customer", "- /welcome.md"),
    ("admin", "docs: read /docs/../x/credentials.env", "That cannot be done. path_denied"),
]


@pytest.mark.parametrize(("role", "text", "says"), CONVERSATIONS, ids=[text for _, text, _ in CONVERSATIONS])
async def test_what_is_asked_is_done_with_the_real_tools(
    engine: EngineName, apps: dict[EngineName, Interlock], role: str, text: str, says: str
):
    output, path, events = await ask(apps[engine], text, role)
    assert says in output
    assert path == (("customer",) if role == "user" else BRIDGE if "docs" in text and "my" not in text else ("supervisor",))
    assert {*names(events, "on_tool_start")} <= {*(READS if path != ("supervisor",) else WRITES)}
    assert "HARBOUR_TOKEN=sk-" not in str(events) + output


async def test_an_admin_writes_edits_and_deletes(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    async with app(engine, tmp_path, gateway_path=base) as running:
        for text, says in {
            'Write "first" to /admin/todo.md': "Done. ",
            'Replace "first" with "second" in /todo.md': "Done. ",
            "Read /todo.md": "/todo.md:\n\nsecond",
            "Delete /admin/todo.md": "Done. ",
            "Open /todo.md": "That cannot be done. Error: File '/todo.md' not found",
            "Delete /": "That cannot be done. path_denied",
        }.items():
            output, path, _ = await ask(running, text, "admin")
            assert output.startswith(says), text
            assert path == ("supervisor",)
    assert not (base / "admin" / "todo.md").exists()
    assert (base / "admin" / "notes.md").exists()


@pytest.mark.parametrize("scene", SCENES, ids=[scene.title for scene in SCENES])
async def test_the_scenes_are_what_they_are_called(engine: EngineName, apps: dict[EngineName, Interlock], scene: object):
    chosen = next(one for one in SCENES if one is scene)
    output, path, events = await ask(apps[engine], chosen.text, chosen.role or "")
    assert ("bridge" in path) == ("over the bridge" in chosen.title)
    assert output
    assert "sk-" not in output
    assert all("HARBOUR_TOKEN" not in str(one) for one in tool_results(events)) or chosen.role == "admin"


TASKS = {
    "ls": Asked("list", "/"),
    "list /inner": Asked("list", "/inner"),
    "read notes.md": Asked("read", "/notes.md"),
    "read ../admin/x.md": Asked("read", "../admin/x.md"),
    "what does /report..final.md say?": Asked("read", "/report..final.md"),
    "delete /a.md": Asked("delete", "/a.md"),
    'write "a b" to /x.txt': Asked("write", "/x.txt", "a b"),
    'replace "a" with "b" in /x.txt': Asked("edit", "/x.txt", "a", "b"),
    "search for refund": Asked("search", "", "refund"),
    "find 'five days'": Asked("search", "", "five days"),
    "*.env": Asked("find", text="*.env"),
    "Why is it so?": Asked("question", text="Why is it so?"),
}


@pytest.mark.parametrize(("task", "asked"), TASKS.items())
def test_what_a_text_asks_for_is_read_from_it(task: str, asked: Asked):
    assert read_task(task) == asked


TOOLS = [Tool(name=name, description="", parameters={}) for name in READS]


@settings(max_examples=150)
@given(text=st.text(), offered=st.sampled_from([0, 4]))
def test_the_rules_have_an_answer_to_everything(text: str, offered: int):
    said = GatewayRules().reply([Message(role="user", text=text)], TOOLS[:offered])
    if not offered:
        assert said in ("route_bridge", "respond_admin")
    elif isinstance(said, ModelReply):
        assert {one.name for one in said.calls} <= {*READS}
        assert said.calls
    else:
        assert said


@settings(max_examples=60)
@given(text=st.text(alphabet=st.sampled_from("read lswfo'\"`/.*\n§x"), max_size=3000))
def test_a_long_text_is_read_at_once(text: str):
    assert read_task(text * 3).kind


# The demo files


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}


async def test_the_demo_files_are_made_once_and_for_their_owner_alone(engine: EngineName, tmp_path: Path):
    old = os.umask(0)
    try:
        async with app(engine, tmp_path / "data") as running:
            await running.run("gateway", "", role="user")
            assert not (tmp_path / "data").exists()
            await running.run("gateway", "List /docs", role="user")
    finally:
        os.umask(old)
    folder = tmp_path / "data" / "gateway"
    assert modes(folder) == {(True, 0o700), (False, 0o600)}
    token = (folder / "admin" / "credentials.env").read_text()
    assert token.startswith("HARBOUR_TOKEN=sk-")
    (folder / "docs" / "welcome.md").write_text("mine")
    async with app(engine, tmp_path / "data") as running:
        assert "mine" in (await running.run("gateway", "Read /welcome.md", role="user")).output
        await running.run("gateway", "Who is on call?", role="admin")
    assert (folder / "admin" / "credentials.env").read_text() == token
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["gateway"]


MAKE = (
    "import sys; from pathlib import Path; from interlock.adapters.files.demo import open_base; open_base(None, folder=Path(sys.argv[1]))"
)


def test_the_demo_files_are_made_once_by_many_at_once(tmp_path: Path):
    folder = tmp_path / "data" / "gateway"
    running = [subprocess.Popen([sys.executable, "-c", MAKE, str(folder)], stderr=subprocess.PIPE) for _ in range(4)]
    ended = [(one.communicate()[1], one.returncode) for one in running]
    assert ended == [(b"", 0)] * 4
    assert [path.name for path in folder.parent.iterdir()] == ["gateway"]
    assert modes(folder) == {(True, 0o700), (False, 0o600)}
    assert len(list(folder.rglob("*.env"))) == 1


def test_a_folder_that_is_configured_has_to_have_both_sides(tmp_path: Path):
    with pytest.raises(SettingsInvalid, match="'admin'"):
        open_base(tmp_path, folder=tmp_path / "x")
    (tmp_path / "admin").mkdir()
    with pytest.raises(SettingsInvalid, match="'docs'") as refused:
        open_base(tmp_path, folder=tmp_path / "x")
    assert str(tmp_path) not in str(refused.value)
    (tmp_path / "docs").mkdir()
    assert open_base(tmp_path, folder=tmp_path / "x") == tmp_path


def test_files_that_cannot_be_made_are_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable) as refused:
        open_base(None, folder=tmp_path / "file" / "gateway")
    assert str(tmp_path) not in str(refused.value)
