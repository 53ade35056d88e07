"""Adapter for LangChain tools."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import JsonValue, ValidationError

from interlock.capabilities.capability import Effect
from interlock.capabilities.model import Tool
from interlock.engine.ambient import alone
from interlock.errors import ToolError, ToolInputInvalid, ToolUnavailable

__all__ = ["LangChainTool"]


class LangChainTool:
    """Runs a LangChain tool without its callback handlers, which would see arguments and results before redaction.

    LangChain does not say what a tool does outside, so its calls are not repeated unless `effect` says that they may be.
    """

    def __init__(self, tool: BaseTool, *, effect: Effect = "once") -> None:
        self._tool = tool
        self.effect: Effect = effect
        described = convert_to_openai_tool(tool)["function"]
        parameters = cast("dict[str, JsonValue]", described.get("parameters") or {"type": "object", "properties": {}})
        self.tool = Tool(name=tool.name, description=str(described.get("description") or tool.name), parameters=parameters)

    async def run(self, args: dict[str, JsonValue]) -> object:
        """Run the tool. Raises ToolInputInvalid if the arguments do not match its schema."""
        unknown = args.keys() - cast("dict[str, Any]", self.tool.parameters.get("properties") or {}).keys()
        if unknown:
            raise ToolInputInvalid(f"'{self.tool.name}' does not take these arguments: {', '.join(sorted(unknown))}.")
        try:
            with alone():
                return await self._tool.ainvoke(cast("dict[str, Any]", args), config={"callbacks": []})
        except ToolException as error:
            raise ToolError(str(error)) from error
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
            raise ToolInputInvalid(f"The arguments of '{self.tool.name}' are invalid: {wrong}.") from None
        except ConnectionError as error:
            raise ToolUnavailable(f"'{self.tool.name}' could not connect to a service: {type(error).__name__}.") from error
