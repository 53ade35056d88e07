"""A LangChain chat model for workers: every call passes the gate of the calling node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from interlock.capabilities.model import Message, Model, Tool, ToolCall

__all__ = ["PROVIDER", "GatedChatModel", "asking"]

PROVIDER = "interlock"
"""The name by which DeepAgents finds the profile of this model."""

asking: ContextVar[Model] = ContextVar("interlock_worker_model")
"""The model that was granted for this call of the worker."""


class GatedChatModel(BaseChatModel):
    """Calls the model that was granted for the current call of the worker, and fails without one."""

    @property
    @override
    def _llm_type(self) -> str:
        return PROVIDER

    @override
    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return {"ls_provider": PROVIDER, "ls_model_type": "chat"}

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools])

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("A worker is asked asynchronously.")

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        *,
        tools: Sequence[dict[str, Any]] = (),
        **kwargs: Any,
    ) -> ChatResult:
        reply = await asking.get().reply([_from_langchain(message) for message in messages], tools=[_offered(tool) for tool in tools])
        calls = [{"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"} for call in reply.calls]
        message = AIMessage(content=reply.text, tool_calls=cast("Any", calls))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _offered(tool: dict[str, Any]) -> Tool:
    function = tool["function"]
    return Tool(name=function["name"], description=function.get("description", ""), parameters=function.get("parameters", {}))


def _from_langchain(message: BaseMessage) -> Message:
    """Convert a message from LangChain. Content that is not text is dropped."""
    text = str(message.text)
    match message:
        case SystemMessage():
            return Message(role="system", text=text)
        case HumanMessage():
            return Message(role="user", text=text)
        case ToolMessage():
            return Message(role="tool", text=text, answers=message.tool_call_id)
        case AIMessage():
            calls = tuple(ToolCall(id=call["id"] or "", name=call["name"], arguments=call["args"]) for call in message.tool_calls)
            return Message(role="assistant", text=text, calls=calls)
        case _:
            raise TypeError(f"A worker said a '{type(message).__name__}'.")
