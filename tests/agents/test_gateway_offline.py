"""The gateway without a model: the rules read what is asked for, use the real file tools, and say what they found."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from interlock.capabilities import Message, ModelReply, Tool
from interlock.engine import EngineName
from interlock.errors import SettingsInvalid, StoreUnavailable
from interlock_agents.gateway.commands import Command, parse_command
from interlock_agents.gateway.demo import open_base
from interlock_agents.gateway.offline import GatewayRules
from interlock_agents.gateway.phrasal_verbs import join_phrasal_verbs, phrasal_verb_pattern
from tests.support.gateway import READS, app

COMMANDS = {
    "ls": Command("list", ("/",)),
    "list /inner": Command("list", ("/inner",)),
    "list the incidents": Command("list", ("/incidents",)),
    "what is in /inner/": Command("list", ("/inner/",)),
    "read notes.md": Command("read", ("/notes.md",)),
    "read ../admin/x.md": Command("read", ("../admin/x.md",)),
    "ls ..": Command("list", ("..",)),
    "read '/a.md' and `b.md`": Command("read", ("/a.md", "/b.md")),
    "what does /report..final.md say?": Command("read", ("/report..final.md",)),
    "Could you please open the billing page for me?": Command("open", text="billing"),
    "delete /a.md": Command("delete", ("/a.md",)),
    'write "a b" to /x.txt': Command("write", ("/x.txt",), "a b"),
    'replace "a" with "b" in /x.txt': Command("edit", ("/x.txt",), "a", "b"),
    "search for refund": Command("search", (), "refund"),
    "find 'five days'": Command("search", (), "five days"),
    "*.env": Command("find", text="*.env"),
    "list *.txt": Command("find", text="*.txt"),
    "tree": Command("find", text="**/*"),
    "list the files in the old folder": Command("list", ("/old",)),
    "which files mention rope?": Command("search", (), "rope"),
    'read "my notes.md"': Command("read", ("/my notes.md",)),
    'write "see a.md" to /x.txt': Command("write", ("/x.txt",), "see a.md"),
    'write "a" to "/b c/d e.md"': Command("write", ("/b c/d e.md",), "a"),
    "could you delete /a.md?": Command("delete", ("/a.md",)),
    "can I delete /a.md": Command("unclear", text="can I delete /a.md"),
    "delete /a.md?": Command("unclear", text="delete /a.md?"),
    "how do I delete a file?": Command("help"),
    "how do I rename a file?": Command("unsupported", text="rename or move"),
    "open the second one": Command("reference", text="the second one"),
    "delete it": Command("reference", text="it"),
    "is that per night?": Command("reference", text="that"),
    "if a booking is moved, is it free?": Command("question", text="if a booking is moved, is it free?"),
    "is it possible to move a booking?": Command("question", text="is it possible to move a booking?"),
    "12 + 30": Command("unsupported", text="calculate"),
    "...": Command("question", text="..."),
    "show the a page and the b page": Command("unclear", text="show the a page and the b page"),
    "Why do harbours close?": Command("question", text="Why do harbours close?"),
    "Why is it so?": Command("reference", text="it"),
    'append "a" to /x.txt': Command("unsupported", ("/x.txt",), "append"),
    "delete /a.md and /b.md": Command("unclear", text="delete /a.md and /b.md"),
    "read /a.md then delete it": Command("unclear", text="read /a.md then delete it"),
    'write "a" to /x.txt twice': Command("unclear", text='write "a" to /x.txt twice'),
}


@pytest.mark.parametrize(("task", "command"), COMMANDS.items())
def test_a_command_is_recognised_as_a_whole_or_not_at_all(task: str, command: Command):
    assert parse_command(task) == command


PHRASAL_VERBS = {
    "sign-up": ("Sign up here", "signup", "we signed them up", "signing-up"),
    "sign-in": ("the sign-in page", "signs in"),
    "give-back": ("gave the boat back", "given back"),
    "set-up": ("setting up", "a setup"),
    "log-out": ("logged out", "the logout link"),
}


@pytest.mark.parametrize("verb", PHRASAL_VERBS)
def test_a_phrasal_verb_matches_its_own_particle_only(verb: str):
    pattern = phrasal_verb_pattern(verb)
    assert pattern is not None
    for other, texts in PHRASAL_VERBS.items():
        assert [text for text in texts if pattern.search(text)] == ([*texts] if other == verb else [])


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("How do I sign up?", "How do I sign-up?"),
        ("can I give my berth back?", "can I give-back my berth?"),
        ("check the prices in July", "check the prices in July"),
        ("who is on call in week 47", "who is on call in week 47"),
    ],
)
def test_a_phrasal_verb_becomes_one_word(text: str, joined: str):
    assert join_phrasal_verbs(text) == joined


CHANGES = ['write "a" to /x.md', "delete /x.md", 'replace "a" with "b" in /x.md', 'create a file /x.md with "a"']


@given(change=st.sampled_from(CHANGES), more=st.from_regex(r"[a-z]{3,9}( [a-z]{3,9}){0,2}", fullmatch=True), first=st.booleans())
def test_a_text_with_more_words_than_a_command_changes_nothing(change: str, more: str, *, first: bool):
    text = f"{more} {change}" if first else f"{change} {more}"
    assume(parse_command(text) != parse_command(change))
    assert parse_command(text).kind in {"unclear", "unsupported", "question"}


TOOLS = [Tool(name=name, description="", parameters={}) for name in READS]


@settings(max_examples=150)
@given(text=st.text(), offered=st.sampled_from([0, 4]))
def test_the_rules_answer_any_text(text: str, offered: int):
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
def test_a_long_text_is_parsed_in_bounded_time(text: str):
    assert parse_command(text * 3).kind


# The demo files


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (folder, *folder.rglob("*"))}


async def test_the_demo_files_are_created_once_and_private(engine: EngineName, tmp_path: Path):
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
    "import sys; from pathlib import Path; from interlock_agents.gateway.demo import open_base; open_base(None, folder=Path(sys.argv[1]))"
)


def test_concurrent_processes_create_the_demo_files_once(tmp_path: Path):
    folder = tmp_path / "data" / "gateway"
    running = [subprocess.Popen([sys.executable, "-c", MAKE, str(folder)], stderr=subprocess.PIPE) for _ in range(4)]
    ended = [(one.communicate()[1], one.returncode) for one in running]
    assert ended == [(b"", 0)] * 4
    assert [path.name for path in folder.parent.iterdir()] == ["gateway"]
    assert modes(folder) == {(True, 0o700), (False, 0o600)}
    assert len(list(folder.rglob("*.env"))) == 1


def test_a_configured_folder_must_have_both_sides(tmp_path: Path):
    with pytest.raises(SettingsInvalid, match="'admin'"):
        open_base(tmp_path, folder=tmp_path / "x")
    (tmp_path / "admin").mkdir()
    with pytest.raises(SettingsInvalid, match="'docs'") as refused:
        open_base(tmp_path, folder=tmp_path / "x")
    assert str(tmp_path) not in str(refused.value)
    (tmp_path / "docs").mkdir()
    assert open_base(tmp_path, folder=tmp_path / "x") == tmp_path


def test_demo_files_that_cannot_be_created_are_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable) as refused:
        open_base(None, folder=tmp_path / "file" / "gateway")
    assert str(tmp_path) not in str(refused.value)
