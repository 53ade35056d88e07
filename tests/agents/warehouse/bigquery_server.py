"""A server of our own that speaks the part of BigQuery's REST interface that its client uses."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["Server", "serving"]

FIELDS = [
    {"name": "order_id", "type": "INTEGER", "mode": "REQUIRED"},
    {"name": "status", "type": "STRING"},
    {"name": "price", "type": "NUMERIC"},
    {"name": "day", "type": "DATE"},
    {"name": "moment", "type": "TIMESTAMP"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
]


class Server(ThreadingHTTPServer):
    """Keeps what it was asked, and answers `rows` rows in pages, or what it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.failures: list[tuple[int, str, str]] = []
        self.rows = 2
        self.page = 1000
        self.is_complete = True
        self.held = threading.Event()
        self.hangs = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def queries(self) -> list[dict[str, Any]]:
        return [body for method, path, body in self.asked if method == "POST" and path.endswith("/queries")]


class _Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride] - ours
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.server.asked.append(("GET", url.path, {}))
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        if re.search(r"/datasets$", url.path):
            self._answer({"datasets": [{"datasetReference": {"projectId": "p", "datasetId": name}} for name in ("hr", "shop")]})
        elif found := re.search(r"/datasets/(\w+)/tables$", url.path):
            names = {"shop": ("orders", "Customers"), "hr": ("salaries",), "empty": ()}[found[1]]
            references = [{"projectId": "p", "datasetId": found[1], "tableId": name} for name in names]
            self._answer({"tables": [{"tableReference": one, "type": "TABLE"} for one in references], "totalItems": len(names)})
        elif found := re.search(r"/datasets/(\w+)/tables/(\w+)$", url.path):
            reference = {"projectId": "p", "datasetId": found[1], "tableId": found[2]}
            self._answer({"tableReference": reference, "schema": {"fields": FIELDS}})
        elif re.search(r"/jobs/", url.path):
            state = "DONE" if self.server.is_complete else "RUNNING"
            job = {"jobReference": _JOB, "status": {"state": state}, "configuration": {"query": {"query": "", "destinationTable": _TABLE}}}
            self._answer(job)
        else:
            self._page(int(given.get("pageToken", "0")), int(given.get("maxResults", "1000")))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = urlsplit(self.path).path
        self.server.asked.append(("POST", path, body))
        if path.endswith("/cancel"):
            self._answer({"job": {"jobReference": _JOB, "status": {"state": "DONE"}}})
        elif self.server.hangs:
            self.server.held.wait(30)
        elif self.server.failures:
            status, reason, message = self.server.failures.pop(0)
            details = {"errors": [{"reason": reason, "message": message}]} if reason else {}
            self._answer({"error": {"code": status, "message": message, **details}}, status)
        else:
            self._page(0, int(body.get("maxResults", 1000)))

    def _page(self, start: int, most: int) -> None:
        if not self.server.is_complete:
            self._answer({"jobReference": _JOB, "jobComplete": False})
            return
        end = min(self.server.rows, start + min(most, self.server.page))
        answer: dict[str, Any] = {
            "jobReference": _JOB,
            "jobComplete": True,
            "schema": {"fields": FIELDS},
            "totalRows": str(self.server.rows),
            "rows": [{"f": [{"v": value} for value in _row(index)]} for index in range(start, end)],
        }
        self._answer({**answer, "pageToken": str(end)} if end < self.server.rows else answer)

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


_JOB = {"projectId": "p", "jobId": "job1", "location": "EU"}
_TABLE = {"projectId": "p", "datasetId": "anonymous", "tableId": "result"}


def _row(index: int) -> list[Any]:
    return [str(index + 1), "shipped", "19.90", "2024-05-01", "1714557600000000", [{"v": "a"}, {"v": "b"}]]


@contextmanager
def serving() -> Generator[Server, None, None]:
    """Serve until the end, on a port of its own."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.held.set()
        server.shutdown()
        thread.join()
        server.server_close()
