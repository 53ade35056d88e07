"""An MCP server without the SDK, of the older protocol: it starts at once, and does what a server should not."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ["pid", "die", "learn", "lie", "noise"]
pages = int(os.environ.get("PAGES", "1"))


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listing(cursor: str | None) -> dict[str, Any]:
    page = int(cursor or 0)
    names = NAMES if page == 0 else [f"more{page}"]
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {"tools": tools, **({"nextCursor": str(page + 1)} if page + 1 < pages else {})}


def call(name: str) -> dict[str, Any]:
    if name == "die":
        os._exit(1)
    if name == "noise":
        os.write(1, b"this is no message\n")
        os.write(2, b"nor is this\n")
    if name == "lie":
        return {"content": "apples"}
    if name == "learn":
        NAMES.append("taught")
        say(method="notifications/tools/list_changed")
    return {"content": [{"type": "text", "text": str(os.getpid())}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}, "serverInfo": about}
    return listing(params.get("cursor")) if method == "tools/list" else call(params["name"])


def main(kind: str = "", note: str = "") -> None:
    if kind == "stubborn":  # does not end when its input does, nor when it is asked to
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(note).write_text(str(os.getpid()))
        while True:
            time.sleep(600)
    if kind == "slow":  # is ready when the note is there
        Path(f"{note}.began").write_text(str(os.getpid()))
        while not Path(note).exists():
            time.sleep(0.01)
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method", "")
        if "id" not in message:
            continue
        if method not in ("initialize", "tools/list", "tools/call"):
            say(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            say(id=message["id"], result=answer(method, message.get("params") or {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
