"""What happens inside a node, told to LangChain's callbacks: LangGraph's own streams are made of them.

Where LangGraph alone drives, its callbacks know the nodes and nothing of the calls inside them. The events of these calls
are passed on, as they are: what was taken out of them is not found again here. Nodes have callbacks of LangGraph's own.
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
from interlock.errors import CapabilityError, InputError, InterlockError, TurnError

__all__ = ["Callbacks", "StandaloneRun", "Tell"]

Tell: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Is called with every event while a node runs, and returns at once."""

StandaloneRun: TypeAlias = Callable[[Node, Mapping[str, Any], Tell | None, Interrupts], Awaitable[StepResult]]
"""Run one node on the state where LangGraph alone drives, and tell of it if somebody listens. It may wait for a person."""

_DECIDES, _NO_STREAM = ".decide", "nostream"  # LangGraph's own tag
_PATIENCE = 5.0
"""Seconds that whoever listens has to hear the rest of what happened in a node that is cancelled."""


class Callbacks:
    """The callbacks of one run of a node: `hear` takes what they are told, and the context ends when they have been told.

    They are told in a task of their own, because they may take their time where a node only mentions something.
    """

    def __init__(self, manager: AsyncCallbackManager) -> None:
        self._calls = _Calls(manager)
        self._context = contextvars.copy_context()  # LangChain's own, from before it is hidden from the node
        self._events: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._telling: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, config: RunnableConfig) -> Callbacks | None:
        """Return the callbacks of the node that runs; None where nobody listens."""
        found = config.get("callbacks")
        return cls(get_async_callback_manager_for_config(config)) if getattr(found, "handlers", found) else None

    @property
    def streamed(self) -> tuple[str, str] | None:
        """The id and the text of the first message that was streamed in this node."""
        return next(((one.message, one.text) for one in self._calls.streamed if one.text), None)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take an event that is to be passed on."""
        if event["event"] not in _TOLD:
            return
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_all(), context=self._context)
        self._events.put_nowait(event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        telling = self._telling
        if telling is None:
            return
        self._events.put_nowait(None)
        try:
            await asyncio.wait((telling,), timeout=_PATIENCE if isinstance(error, asyncio.CancelledError) else None)
        finally:
            if not telling.done():
                telling.cancel()
                await asyncio.wait((telling,))
        broken = None if telling.cancelled() else telling.exception()
        if broken is not None and error is None:
            raise broken  # by a handler that wants its errors raised

    async def _tell_all(self) -> None:
        while (event := await self._events.get()) is not None:
            await getattr(self._calls, event["event"])(event)


class _Calls:
    """The calls inside a node's run. What happens to one is told by the method that has the event's name."""

    def __init__(self, manager: AsyncCallbackManager) -> None:
        self._manager = manager
        self._models: dict[str, _ModelRun] = {}
        self.streamed: list[_ModelRun] = []
        self._tools: dict[str, AsyncCallbackManagerForToolRun] = {}

    async def on_chat_model_start(self, event: Mapping[str, Any]) -> None:
        name, asked = event["name"], _asked(event["data"]["input"])
        manager = self._manager_of(event)
        if name.endswith(_DECIDES):  # what a model decides is for the node, and no part of a conversation that LangGraph streams
            manager.add_tags([_NO_STREAM], inherit=False)
        runs = await manager.on_chat_model_start(_described(name), [asked], name=name)
        self._models[event["run_id"]] = _ModelRun(runs[0])
        self.streamed.append(self._models[event["run_id"]])

    async def on_chat_model_stream(self, event: Mapping[str, Any]) -> None:
        await self._models[event["run_id"]].say(event["data"]["chunk"])

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
        """Return the node's callbacks for one call, with the path to the node that makes it: that may be inside a graph inside."""
        manager = self._manager.copy()
        manager.add_metadata({"interlock_node": event["metadata"]["langgraph_node"]}, inherit=False)
        return manager


_TOLD = frozenset(name for name in vars(_Calls) if name.startswith("on_"))


class _ModelRun:
    """A call of a model. Its pieces and its answer are one message, so they have one id."""

    def __init__(self, run: AsyncCallbackManagerForLLMRun) -> None:
        self.run = run
        self.message = f"run-{run.run_id}"
        self.text = ""
        self._calls = 0

    async def say(self, piece: Any) -> None:
        said = _record(piece)
        text = _said(piece)
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
            content=_said(result), id=self.message, tool_calls=_calls(said), usage_metadata=_usage(said), response_metadata=about
        )
        await self.run.on_llm_end(LLMResult(generations=[[ChatGeneration(message=answer)]]))


def _described(name: str) -> dict[str, Any]:
    """Write what LangChain wants to know of what runs: handlers look for the name in one place or the other."""
    return {"lc": 1, "type": "not_implemented", "id": ["interlock", name], "name": name}


def _asked(given: Any) -> list[BaseMessage]:
    """Write what a model was asked as messages: a conversation, a request, or whatever else a capability takes."""
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


def _said(result: Any) -> str:
    """Return the words of what a model said: a reply or a part of one, a response, a decision, or anything else as JSON."""
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
    except ValueError:  # a number of thousands of digits
        return "null"


def _record(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _error(told: Mapping[str, str]) -> BaseException:
    """Make an error of what was told of one: the error itself may hold more than that."""
    if told["code"] == "cancelled":
        return asyncio.CancelledError(told["message"])
    kinds: list[type[InterlockError]] = [TurnError, InputError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    found = next((kind for kind in kinds if kind.code == told["code"]), CapabilityError)
    made = found.__new__(found)  # and not its own __init__, which may want more than a message
    if isinstance(made, TurnError):
        TurnError.__init__(made, told["message"])
    else:
        InterlockError.__init__(made, told["message"])
    return made
