"""Forwards the events of capability calls inside a node to LangChain's callbacks, from which LangGraph makes its streams.

Where LangGraph runs an exported graph, it calls the callbacks for nodes itself, and knows nothing of the calls inside them. Events
are forwarded as they were emitted, so they are redacted already.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForLLMRun, AsyncCallbackManagerForToolRun
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_async_callback_manager_for_config

from interlock.contract.node import Node, StepResult
from interlock.engine.interrupts import Interrupts
from interlock.errors import CapabilityError, create_error

__all__ = ["Callbacks", "OnEvent", "StandaloneRun"]

OnEvent: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Is called with every event while a node runs, and does not block."""

StandaloneRun: TypeAlias = Callable[[Node, Mapping[str, Any], OnEvent | None, Interrupts], Awaitable[StepResult]]
"""Run one node of an exported graph on the state, without a turn, and emit its events if a listener is given. It may interrupt."""

_DECIDES = ".decide"
# LangGraph's own tag.
_NO_STREAM = "nostream"
_FLUSH_SECONDS = 5.0
"""How long the handlers may take for the events that are left when a node is cancelled."""


class Callbacks:
    """Forwards the events of one node run. Leaving the context waits until the handlers have been called for all of them.

    A separate task calls the handlers, so that a slow handler does not slow the node down. Each event is handled by the method with
    its name.
    """

    def __init__(self, callback_manager: AsyncCallbackManager) -> None:
        self._manager = callback_manager
        # Taken before LangChain's config is hidden from the node.
        self._context = contextvars.copy_context()
        self._events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._models: dict[str, _ModelRun] = {}
        self._tools: dict[str, AsyncCallbackManagerForToolRun] = {}
        self._streamed: list[_ModelRun] = []

    @classmethod
    def of(cls, config: RunnableConfig) -> Callbacks | None:
        """Return the callbacks for the node that runs with this config; None where it has no handlers."""
        found = config.get("callbacks")
        return cls(get_async_callback_manager_for_config(config)) if getattr(found, "handlers", found) else None

    @property
    def streamed(self) -> tuple[str, str] | None:
        """The id and the text of the first message that was streamed in this node."""
        return next(((one.message, one.text) for one in self._streamed if one.text), None)

    def queue(self, event: Mapping[str, Any]) -> None:
        """Queue an event, if it is one that is forwarded."""
        if not hasattr(self, event["event"]):
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._forward(), context=self._context)
        self._events.put_nowait(event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task = self._task
        if task is None:
            return
        self._events.put_nowait(None)
        try:
            await asyncio.wait((task,), timeout=_FLUSH_SECONDS if isinstance(error, asyncio.CancelledError) else None)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
        failure = None if task.cancelled() else task.exception()
        if failure is not None and error is None:
            # A handler may ask for its errors to be raised.
            raise failure

    async def _forward(self) -> None:
        while (event := await self._events.get()) is not None:
            await getattr(self, event["event"])(event)

    async def on_chat_model_start(self, event: Mapping[str, Any]) -> None:
        name, prompt = event["name"], _prompt(event["data"]["input"])
        manager = self._manager_of(event)
        if name.endswith(_DECIDES):
            # A decision is for the node. It is not part of the conversation that LangGraph streams.
            manager.add_tags([_NO_STREAM], inherit=False)
        runs = await manager.on_chat_model_start(_described(name), [prompt], name=name)
        self._models[event["run_id"]] = _ModelRun(runs[0])
        self._streamed.append(self._models[event["run_id"]])

    async def on_chat_model_stream(self, event: Mapping[str, Any]) -> None:
        await self._models[event["run_id"]].stream(event["data"]["chunk"])

    async def on_chat_model_end(self, event: Mapping[str, Any]) -> None:
        await self._models.pop(event["run_id"]).end(event["data"]["output"])

    async def on_chat_model_error(self, event: Mapping[str, Any]) -> None:
        await self._models.pop(event["run_id"]).run.on_llm_error(_error(event["data"]["error"]))

    async def on_tool_start(self, event: Mapping[str, Any]) -> None:
        name, given = event["name"], event["data"]["input"]
        inputs = _record(given) if isinstance(given, dict) else {"arguments": given}
        started = self._manager_of(event).on_tool_start(_described(name), _text(given), name=name, inputs=inputs)
        self._tools[event["run_id"]] = await started

    async def on_tool_end(self, event: Mapping[str, Any]) -> None:
        await self._tools.pop(event["run_id"]).on_tool_end(event["data"]["output"])

    async def on_tool_error(self, event: Mapping[str, Any]) -> None:
        await self._tools.pop(event["run_id"]).on_tool_error(_error(event["data"]["error"]))

    async def on_custom_event(self, event: Mapping[str, Any]) -> None:
        await self._manager_of(event).on_custom_event(event["name"], event["data"], run_id=self._manager.parent_run_id)

    def _manager_of(self, event: Mapping[str, Any]) -> AsyncCallbackManager:
        """Return the node's callbacks for one call, with the path of the node that makes it, which may be in a subgraph."""
        manager = self._manager.copy()
        manager.add_metadata({"interlock_node": event["metadata"]["langgraph_node"]}, inherit=False)
        return manager


class _ModelRun:
    """A model call. Its chunks and its answer are one message, so they have one id."""

    def __init__(self, run: AsyncCallbackManagerForLLMRun) -> None:
        self.run = run
        self.message = f"run-{run.run_id}"
        self.text = ""
        self._calls = 0

    async def stream(self, data: Any) -> None:
        said, text = _record(data), _answer_text(data)
        self.text += text
        calls = [
            tool_call_chunk(name=call["name"], args=_json(call["args"]), id=call["id"], index=index)
            for index, call in enumerate(_calls(said), self._calls)
        ]
        self._calls += len(calls)
        chunk = AIMessageChunk(content=text, id=self.message, tool_call_chunks=calls, usage_metadata=_usage(said))
        await self.run.on_llm_new_token(text, chunk=ChatGenerationChunk(message=chunk))

    async def end(self, result: Any) -> None:
        said = _record(result)
        about = {name: said[name] for name in ("status", "error_type", "metadata") if said.get(name) is not None}
        if said.get("model"):
            about["model_name"] = said["model"]
        answer = AIMessage(
            content=_answer_text(result), id=self.message, tool_calls=_calls(said), usage_metadata=_usage(said), response_metadata=about
        )
        await self.run.on_llm_end(LLMResult(generations=[[ChatGeneration(message=answer)]]))


def _described(name: str) -> dict[str, Any]:
    """Describe a model or tool as LangChain does. Some handlers look for its name in `id`, others in `name`."""
    return {"lc": 1, "type": "not_implemented", "id": ["interlock", name], "name": name}


def _prompt(given: Any) -> list[BaseMessage]:
    """Convert the arguments of a model call to messages: a conversation, a request, or any other arguments as JSON."""
    for part in _items(given):
        messages = [_record(one) for one in _items(part)]
        if messages and all("role" in message for message in messages):
            return [_message(message) for message in messages]
        request = _record(part)
        if "prompt" in request:
            context, image = request.get("context"), request.get("image")
            prompt = HumanMessage(content=_content(_text(request["prompt"]), [image] if image else []))
            return [SystemMessage(content=_text(context)), prompt] if context else [prompt]
    return [HumanMessage(content=_text(given))]


def _message(said: Mapping[str, Any]) -> BaseMessage:
    text, images = _text(said.get("text", "")), _items(said.get("images"))
    match said["role"]:
        case "system":
            return SystemMessage(content=text)
        case "user":
            return HumanMessage(content=_content(text, images))
        case "assistant":
            return AIMessage(content=text, tool_calls=_calls(said))
        case "tool":
            return ToolMessage(content=text, tool_call_id=_text(said.get("answers")))
        case role:
            return ChatMessage(content=text, role=_text(role))


def _content(text: str, images: list[Any]) -> str | list[str | dict[Any, Any]]:
    if not images:
        return text
    return [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": _text(image)}} for image in images)]


def _answer_text(result: Any) -> str:
    """Return the text of a model's answer: of a reply or a chunk, a response or a decision; any other answer as JSON."""
    said = _record(result)
    for name in ("text", "output", "value"):
        if name in said:
            return _text(said[name])
    return _text(result)


def _calls(said: Mapping[str, Any]) -> list[Any]:
    made: list[Any] = []
    for call in map(_record, _items(said.get("calls"))):
        arguments = call.get("arguments")
        args = _record(arguments) if isinstance(arguments, dict) else {"arguments": arguments}
        made.append(tool_call(name=_text(call.get("name")), args=args, id=_text(call.get("id"))))
    return made


def _usage(said: Mapping[str, Any]) -> UsageMetadata | None:
    counts = _record(said.get("usage") or said.get("metadata"))
    given, made = counts.get("input_tokens"), counts.get("output_tokens")
    if not isinstance(given, int) or not isinstance(made, int):
        return None
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        return _text(value[0])
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except ValueError:
        # A number may have thousands of digits.
        return "null"


def _record(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _error(data: Mapping[str, str]) -> BaseException:
    """Create an error from the data of an event. The original error may hold secrets that the event does not have."""
    if data["code"] == "cancelled":
        return asyncio.CancelledError(data["message"])
    return create_error(data["code"], data["message"]) or CapabilityError(data["message"])
