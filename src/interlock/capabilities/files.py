"""The file tools of a worker, each call of which is seen."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, emits
from interlock.capabilities.tools import ToolRequest, ToolResult

__all__ = ["FileTools"]


class FileTools(Capability, Protocol):
    """Runs the tools that a worker reads and writes files with, in its own scope."""

    @emits("tool")
    async def run(self, request: ToolRequest) -> ToolResult:
        """Run a tool. Whatever goes wrong is the `error` of the result, with its code: the worker goes on with that."""
        ...
