"""What the doctor says, what the shell completes, what the log looks like."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def server() -> Generator[str]:
    """A server that knows its models and wants the key `right`."""

    class Models(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.headers["authorization"] == "Bearer right"
            self.send_response((200 if self.path == "/v1/models" else 404) if known else 401)
            self.end_headers()

        def log_message(self, format: str, *args: object):  # noqa: A002 - its own name
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/v1"
        serving.shutdown()
        thread.join()


def checks(ran: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["what"]: check for check in json.loads(ran.stdout)["checks"]}


def test_a_fresh_machine_is_healthy(interlock: Command, tmp_path: Path):
    ran = interlock("doctor", "--json", env={"INTERLOCK_DATA_DIR": str(tmp_path / "data")})
    found = checks(ran)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["ok"] is True
    assert found["model"]["found"] == "offline rules, no language model"
    assert found["transcriber"]["state"] == "off"
    assert found["transcriber"]["fix"]
    assert found["agent sam"]["state"] == "ok"
    assert not (tmp_path / "data").exists()  # looking changes nothing


def test_a_server_that_answers_is_found(interlock: Command, server: str):
    env = {"INTERLOCK_MODEL": "openai:any", "INTERLOCK_MODEL_BASE_URL": server, "INTERLOCK_MODEL_API_KEY": "right"}
    ran = interlock("doctor", "--json", env=env)
    assert checks(ran)["model"]["state"] == "ok"
    assert server in checks(ran)["model"]["found"]
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"INTERLOCK_MODEL_API_KEY": "wrong-key-of-mine"}, "refuses the key"),
        ({"INTERLOCK_MODEL_BASE_URL": "http://127.0.0.1:9"}, "cannot be reached"),
        ({"INTERLOCK_MODEL_BASE_URL": "{server}/elsewhere"}, "HTTP 404"),
        ({"INTERLOCK_MODEL": "nonsense"}, "is unknown"),
        ({"INTERLOCK_TRANSCRIBER": "nonsense"}, "is unknown"),
        ({"INTERLOCK_DATA_DIR": "/dev/null/x"}, "cannot be written"),
        ({"INTERLOCK_ENGIN": "direct"}, "INTERLOCK_ENGIN (did you mean INTERLOCK_ENGINE?)"),
    ],
    ids=["key", "port", "path", "model", "transcriber", "folder", "name"],
)
def test_what_is_broken_is_named(interlock: Command, server: str, change: dict[str, str], says: str):
    env = {"INTERLOCK_MODEL": "openai:any", "INTERLOCK_MODEL_BASE_URL": server, "INTERLOCK_MODEL_API_KEY": "right"}
    ran = interlock("doctor", env=env | {name: value.format(server=server) for name, value in change.items()})
    broken = [line for line in ran.stdout.splitlines() if line.startswith("broken\t")]
    assert ran.returncode == 1
    assert len(broken) == 1
    assert says in broken[0]
    assert "wrong-key-of-mine" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("interlock ru", ["run"]),
        ("interlock run s", ["sam"]),
        ("interlock chat s", ["sam"]),
        ("interlock run sam --model l", ["local"]),
        ("interlock run sam --engine d", ["direct"]),
    ],
)
def test_the_shell_completes(interlock: Command, words: str, offered: list[str]):
    env = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert interlock(env=env).stdout.split() == offered


def test_the_log_is_json_where_no_person_looks(interlock: Command):
    ran = interlock("run", "sam", "hello sk-abcdefghijklmnopqrstuvwxyz", env={"INTERLOCK_LOG_LEVEL": "info"})
    (line,) = [json.loads(line) for line in ran.stderr.splitlines()]
    assert (line["level"], line["message"], line["agent"], line["status"], line["steps"]) == ("info", "turn ended", "sam", "success", 9)


def test_the_log_tells_of_every_step_on_request_and_of_no_key(interlock: Command):
    ran = interlock("run", "sam", "hello sk-abcdefghijklmnopqrstuvwxyz", env={"INTERLOCK_LOG_LEVEL": "debug"})
    said = [json.loads(line)["message"] for line in ran.stderr.splitlines()]
    assert "on_chain_start router_node" in said
    assert "on_capability_end Clock.now" in said
    assert "sk-abcdef" not in ran.stderr


def test_there_is_no_log_unless_it_is_asked_for(interlock: Command):
    assert interlock("run", "sam", "hello").stderr == ""


def test_the_environment_of_a_tool_server_is_not_shown(interlock: Command):
    servers = {"shop": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Token hunter2-hunter2"}}}
    ran = interlock("doctor", env={"INTERLOCK_TOOL_SERVERS": json.dumps(servers)})
    assert "tool_servers = shop" in ran.stdout
    assert "hunter2" not in ran.stdout + ran.stderr


def test_the_doctor_says_what_the_local_model_is_for(interlock: Command):
    found = checks(interlock("doctor", "--json", env={"INTERLOCK_MODEL": "local"}))
    assert "for plumbing only" in found["model"]["found"]
    assert "for plumbing only" in found["local model"]["found"]


@pytest.mark.parametrize("options", [[], ["--json"], ["--events"]], ids=["text", "json", "events"])
def test_a_key_of_the_settings_is_not_in_what_a_command_prints(interlock: Command, options: list[str]):
    ran = interlock("run", "sam", "it is not-like-a-key-77", *options, env={"INTERLOCK_MODEL_API_KEY": "not-like-a-key-77"})
    assert ran.returncode == 0
    assert "it is [redacted]" in ran.stdout
    assert "not-like-a-key" not in ran.stdout + ran.stderr


def test_a_key_of_the_settings_is_not_in_what_a_chat_prints(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"it is not-like-a-key-77\n", env={"INTERLOCK_MODEL_API_KEY": "not-like-a-key-77"})
    assert "it is [redacted]" in ran.stdout
    assert "not-like-a-key" not in ran.stdout + ran.stderr
