"""Turns of the gateway that were written down: taken again without files, secrets or a model; gone on with, and nothing written twice."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelUnavailable
from interlock.runtime.events import Event
from interlock.testing import Scripted
from tests.support.gateway import BRIDGE, SECRET, app, call, calls, code, found, make_files, vault

OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
WRITE = calls(call("write_file", file_path="/new.md", content="new {{secret}}"))
READ = calls(call("read_file", file_path="/notes.md"), call("ls", path="/"))
FIND = calls(call("read_file", file_path="/welcome.md"), call("glob", pattern="*"))
TURNS: dict[str, tuple[str, str, tuple[Scripted, ...]]] = {
    "an answer": ("admin", "Hello.", ("respond_admin", "Good day.")),
    "files of the admin": ("admin", "Go on.", ("respond_admin", WRITE, READ, "Done.")),
    "over the bridge": ("admin", "The docs.", ("route_bridge", FIND, "Done.")),
    "a customer": ("user", "Hello.", (calls(call("read_file", file_path="/../admin/x"), call("execute", command="id")), "No.")),
    "nothing": ("admin", "", ("never asked",)),
    "a model that dies": ("user", "Hello.", (calls(call("ls", path="/")), ModelUnavailable("Gone."))),
    "the same twice": ("user", "Hello.", (calls(call("ls", path="/"), call("ls", path="/")), calls(call("ls", path="/")), "Done.")),
}


def nowhere(engine: EngineName, folder: Path) -> Interlock:
    """An application with no files, no secret and no model."""
    given: dict[str, Any] = {
        "data_dir": folder / "nowhere",
        "model": "openai:none",
        "model_base_url": "http://127.0.0.1:9",
        "gateway_path": folder / "gone",
        "gateway_secrets": {"key": f"file:{folder}/gone"},
        "gateway_secret_ref": "key",
    }
    return Interlock(Settings(engine=engine, **given))


def entries(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [f"{line['entry']['capability']}.{line['entry']['method']}" for line in lines if "entry" in line]


@pytest.mark.parametrize(("role", "text", "replies"), TURNS.values(), ids=TURNS)
async def test_a_recorded_turn_is_replayed_on_either_engine_without_calls(
    engine: EngineName, tmp_path: Path, role: str, text: str, replies: tuple[Scripted, ...]
):
    base = make_files(tmp_path)
    events: list[Event] = []
    async with app(engine, tmp_path, *replies, **vault(tmp_path)) as running:
        before = await running.run("gateway", text, role=role, record=tmp_path / "record", on_event=events.append)
    shutil.rmtree(base)
    (tmp_path / "secret").unlink()
    for other in ENGINES:
        again: list[Event] = []
        replay = await nowhere(other, tmp_path).replay(tmp_path / "record", on_event=again.append)
        assert replay.differences == ()
        assert (replay.result.to_json(), replay.result.path) == (before.to_json(), before.path)
        assert again == events
        assert found(SECRET, json.dumps([again, replay.result.to_json()])) == []
    assert not base.exists()
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("role", "text"),
    [("admin", "Who is on call in week 47?"), ("admin", "What do the docs say about cancelling?"), ("user", "Read /docs/partner-note.md")],
)
async def test_a_turn_without_a_model_call_is_replayed(engine: EngineName, tmp_path: Path, role: str, text: str):
    async with app(engine, tmp_path) as running:
        before = await running.run("gateway", text, role=role, record=tmp_path / "record")
    assert before.status == "success"
    shutil.rmtree(tmp_path / "gateway")
    replay = await nowhere(OTHER[engine], tmp_path).replay(tmp_path / "record")
    assert (replay.differences, replay.result.output) == ((), before.output)


async def test_calls_of_models_tools_and_the_vault_are_recorded(engine: EngineName, tmp_path: Path):
    make_files(tmp_path)
    async with app(engine, tmp_path, *TURNS["files of the admin"][2], **vault(tmp_path)) as running:
        await running.run("gateway", "Go on.", role="admin", record=tmp_path / "record")
    files, model = "FileTools.run", "Model.reply"
    assert entries(tmp_path / "record") == [model, "Vault.reference", "Vault.fetch", model, files, model, files, files, model]
    assert (tmp_path / "record").stat().st_mode & 0o077 == 0  # it holds the secret


async def test_an_interrupted_turn_is_resumed_and_writes_no_file_twice(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    replies = TURNS["files of the admin"][2]
    async with app(engine, tmp_path, *replies, **vault(tmp_path)) as running:
        whole = await running.run("gateway", "Go on.", role="admin", record=tmp_path / "whole")
    lines = (tmp_path / "whole").read_text().splitlines(keepends=True)
    made = entries(tmp_path / "whole")
    new = base / "admin" / "new.md"
    assert len(lines) == 11
    for cut in (1, 5, 6, 8, 10):
        known = made[: cut - 1]
        new.unlink(missing_ok=True)
        path = tmp_path / f"cut-{cut}"
        path.write_text("".join(lines[:cut]) + '{"entry": {"tu')  # the last line is torn
        asked = sum(name == "Model.reply" for name in known)
        async with app(OTHER[engine], tmp_path, *(replies[asked:] or ("never said",)), **vault(tmp_path)) as running:
            result = await running.resume(path)
        assert (code(result), result.output, result.path) == (None, whole.output, whole.path)
        assert new.exists() == ("FileTools.run" not in known)
        assert not new.exists() or new.read_text() == f"new {SECRET}"
        assert len(entries(path)) == len(made)
        assert (await nowhere(engine, tmp_path).replay(path)).differences == ()


SCRIPT = """
import asyncio, json, sys
from pathlib import Path
from interlock import Interlock, Settings

async def main():
    engine, folder, path, what = sys.argv[1:]
    settings = Settings(engine=engine, data_dir=Path(folder))
    app = Interlock(settings)
    if what == "replay":
        replay = await app.replay(Path(path))
        print(json.dumps([list(map(str, replay.differences)), replay.result.output]))
    else:
        result = await app.resume(Path(path))
        print(json.dumps([result.path, result.output]))
    await app.close()

asyncio.run(main())
"""


def elsewhere(engine: EngineName, folder: Path, path: Path, what: str) -> Any:
    """Do it in another process, which has another key for its proofs."""
    command = [sys.executable, "-c", SCRIPT, engine, str(folder), str(path), what]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)


async def test_a_turn_over_the_bridge_is_resumed_by_another_process(tmp_path: Path):
    text = "What do the docs say about cancelling?"
    async with app("langgraph", tmp_path) as running:
        before = await running.run("gateway", text, role="admin", record=tmp_path / "record")
    assert before.path == BRIDGE
    assert elsewhere("direct", tmp_path, tmp_path / "record", "replay") == [[], before.output]
    lines = (tmp_path / "record").read_text().splitlines(keepends=True)
    (tmp_path / "cut").write_text("".join(lines[:3]))
    assert elsewhere("direct", tmp_path, tmp_path / "cut", "resume") == [[*BRIDGE], before.output]
