"""An MCP server whose tools say what they do."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("annotated", log_level="CRITICAL")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Look at something."""
    return "seen"


@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
def store() -> str:
    """Store something."""
    return "stored"


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def pay() -> str:
    """Pay for something."""
    return "paid"


@server.tool()
def silent() -> str:
    """Do something."""
    return "done"


if __name__ == "__main__":
    server.run()
