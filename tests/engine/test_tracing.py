"""Tracers and handlers that are switched on for a whole process see no secret of a graph that Interlock runs or hands out."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import traced

ROOT = Path(__file__).parents[2]
BATCHES = {
    "use_multipart_endpoint": True,
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_nthreads_limit": 4,
    "scale_up_qsize_trigger": 1000,
    "scale_down_nempty_trigger": 4,
}
"""What LangSmith's client wants to know of a server that takes traces."""


class Sink:
    """Takes traces as LangSmith's server does, and keeps them."""

    def __init__(self) -> None:
        self.received: list[str] = []
        received = self.received

        class Requests(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                received.append(f"{self.command} {self.path} {self.headers} {body.decode(errors='replace')}")
                data = json.dumps({"version": "0.9.0", "batch_ingest_config": BATCHES}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = _answer  # noqa: N815 - the names that http.server looks for

            def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - its name there
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


SWITCHES: dict[str, tuple[dict[str, str], str]] = {
    "LANGSMITH_TRACING": ({"LANGSMITH_TRACING": "true"}, "sink"),
    "LANGCHAIN_TRACING_V2": ({"LANGCHAIN_TRACING_V2": "true"}, "sink"),
    "context": ({}, "sink"),
    "debug": ({}, "console"),
    "verbose": ({}, "console"),
    "hook": ({}, "handler"),
    "hook of a class": ({"TRACE_WITH_HANDLER": "true"}, "handler"),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_no_listener_of_the_whole_process_gets_a_secret(switch: str, sink: Sink, tmp_path: Path):
    environment, listens = SWITCHES[switch]
    env = {
        "LANGSMITH_ENDPOINT": sink.address,
        "LANGSMITH_API_KEY": "none",
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        **environment,
    }
    command = [sys.executable, "-m", traced.__name__, switch, str(tmp_path / "heard")]
    ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    got = {
        "sink": "\n".join(sink.received),
        "console": ended.stdout + ended.stderr,
        "handler": (tmp_path / "heard").read_text(encoding="utf-8"),
    }
    assert traced.SEEN_BY_ALL in got[listens], "what is switched on here sees nothing at all, so this test shows nothing"
    for where, text in got.items():
        for secret in (traced.SECRET, traced.VAULTED, traced.KEY):
            at = text.find(secret)
            assert at < 0, f"{where}: ...{text[max(0, at - 400) : at + 100]}"
    if switch != "verbose":
        assert "What is it?" in got[listens], "a handed-out graph is traced, without its secrets"
