"""The file tools of a worker. Each call emits events."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, emits
from interlock.capabilities.tools import ToolRequest, ToolResult

__all__ = ["READING", "FileTools"]

READING = ("ls", "read_file", "glob", "grep")
"""The tools that change nothing."""


class FileTools(Capability, Protocol):
    """Runs the tools with which a worker reads and writes files in its own folder."""

    @emits("tool")
    async def run(self, request: ToolRequest) -> ToolResult:
        """Run a tool. A failure is the `error` of the result, with its code, so that the worker can react to it."""
        ...
