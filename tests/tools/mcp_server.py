"""An MCP server that the tests run: by standard input and output, or over HTTP on a port of its own choice."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp_types import CallToolResult, TextContent

server = MCPServer("shop", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def pid() -> int:
    """Tell the number of this process."""
    return os.getpid()


@server.tool()
def setting(name: str) -> str:
    """Tell a variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
def where() -> str:
    """Tell the working directory."""
    return str(Path.cwd())


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def much(size: int) -> str:
    """Say very much."""
    return "x" * size


@server.tool()
def refuse() -> CallToolResult:
    """Answer with an error."""
    return CallToolResult(content=[TextContent(type="text", text="There are no apples.")], is_error=True)


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Answer with text and a picture."""
    return ["an apple", Image(data=b"apple", format="png")]


@server.tool()
def learn() -> str:
    """Learn another tool."""
    server.add_tool(taught, name="taught")
    return "learnt"


def taught() -> str:
    """Tell what was learnt."""
    return "apples"


@server.tool()
def noise() -> str:
    """Write what is no message to both outputs."""
    os.write(1, b"this is no message\n")
    os.write(2, b"a line of the log\n")
    return "quiet again"


def main(kind: str = "stdio", port: str = "0") -> None:
    if kind == "stdio":
        server.run()
        return
    listening = socket.create_server(("127.0.0.1", int(port)))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="critical")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
