"""Adapter for LangChain chat models. Makes one call without retries, and validates the answer."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Role, Tool, ToolCall, Usage
from interlock.engine.ambient import alone
from interlock.errors import ModelCutOff, ModelOutputInvalid, ModelRefused, ModelUnavailable, SettingsInvalid
from interlock.models.failures import translating
from interlock.models.http_limits import bounded_client
from interlock.models.repetition import LoopDetector
from interlock.models.structured import StructuredOutput
from interlock.models.usage import recording_cost, reported_usage

__all__ = ["LangChainModel", "open_provider"]

T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")

_NO_CALLBACKS: RunnableConfig = {"callbacks": []}
"""LangChain's callbacks and traces would see what the gate redacts."""

_FINISH_KEYS = ("finish_reason", "status")
"""The metadata keys of OpenAI's two APIs for the reason why an answer ended."""

_CUT_OFF = frozenset({"length", "max_tokens", "incomplete"})
"""The providers' values for an answer that reached its token limit."""

_structured = functools.lru_cache(maxsize=256)(StructuredOutput)


class LangChainModel:
    """Calls a chat model once. The caller decides about retries."""

    def __init__(
        self,
        chat: BaseChatModel,
        *,
        name: str,
        max_reply_bytes: int,
        timeout_s: float | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
        takes_cut_text: bool = False,
    ) -> None:
        """`takes_cut_text` accepts text that was cut off at the token limit, for a small model that rarely stops by itself."""
        self._takes_cut_text = takes_cut_text
        self._chat = chat
        self._name = name
        self._max_reply_bytes = max_reply_bytes
        self._timeout_s = timeout_s
        self._close = close

    @property
    def name(self) -> str:
        """The name of the model in its replies."""
        return self._name

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Return an answer or tool calls. With a schema the answer is JSON, if the model supports it."""
        if schema is not None and not tools:
            with translating():
                structured = _structured(schema)
                text, usage = await self._invoke_json(messages, structured, structured.as_class_json)
                return ModelReply(text=text, model=self._name, usage=usage)
        with translating():
            message = _assistant(await self._invoke(self._with_tools(tools), _to_langchain(messages, tools)))
            with recording_cost(_decision_text(message), message.usage_metadata):
                _check_refusal(message)
                self._check_text(message.response_metadata)
                buffer = _ReplyBuffer(limit=self._max_reply_bytes)
                buffer.add_text(str(message.text))
                for call in message.tool_calls:
                    buffer.add_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
                calls = buffer.finished(messages, tools, broken=bool(message.invalid_tool_calls))
            return ModelReply(text="".join(buffer.text), calls=calls, model=self._name, usage=reported_usage(message.usage_metadata))

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Yield an answer in chunks. The last one has the tool calls and the usage."""
        buffer = _ReplyBuffer(limit=self._max_reply_bytes)
        with translating():
            chunks = self._with_tools(tools).astream(_to_langchain(messages, tools), config=_NO_CALLBACKS)
        async with aclosing(cast("AsyncGenerator[AIMessageChunk, None]", chunks)):
            while (message := await self._next(chunks)) is not None:
                with translating():
                    text = buffer.add(_chunk(message))
                if text:
                    yield Chunk(text=text, model=self._name)
        with translating(), recording_cost("", buffer.usage):  # the text was counted while it was streamed
            buffer.check_end()
            self._check_text(buffer.metadata)
            calls = buffer.finished(messages, tools, broken=False)
        yield Chunk(calls=calls, model=self._name, usage=reported_usage(buffer.usage))

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Return an instance of a pydantic class. Validation is strict: no value is converted or filled in."""
        with translating():
            structured = _structured(schema)
            value, usage = await self._invoke_json(messages, structured, lambda text: structured.read(text, schema))
            return Decision(value=value, model=self._name, usage=usage)

    async def _invoke_json(
        self, messages: Sequence[Message], structured: StructuredOutput, read: Callable[[str], R]
    ) -> tuple[R, Usage | None]:
        """Request JSON that matches a schema, and return it parsed by `read`."""
        # OpenAI's client enforces a schema only with this option; other clients do not have it.
        strict = {"strict": True} if "strict" in inspect.signature(self._chat.with_structured_output).parameters else {}
        runnable: Runnable[Any, Any] = self._chat.with_structured_output(structured.schema, include_raw=True, **strict)
        answer = await self._invoke(runnable, _to_langchain(messages))
        message = _assistant(cast("Mapping[str, Any]", answer)["raw"])
        with recording_cost(_decision_text(message), message.usage_metadata):
            _check_refusal(message)
            _check_complete(message.response_metadata)
            buffer = _ReplyBuffer(limit=self._max_reply_bytes)
            buffer.add_text(_decision_text(message))
            buffer.finished(messages, (), broken=False)
            return read("".join(buffer.text)), reported_usage(message.usage_metadata)

    async def aclose(self) -> None:
        """Close the connection to the server."""
        if self._close is not None:
            await self._close()

    def _check_text(self, metadata: Mapping[str, Any]) -> None:
        if not self._takes_cut_text:
            _check_complete(metadata)

    def _with_tools(self, tools: Sequence[Tool]) -> Runnable[Any, Any]:
        if not tools:
            return self._chat
        return self._chat.bind_tools(
            [
                {"type": "function", "function": {"name": name, "description": tool.description, "parameters": tool.parameters}}
                for name, tool in zip(_wire_names(tools), tools, strict=True)
            ]
        )

    async def _invoke(self, runnable: Runnable[Any, Any], messages: list[BaseMessage]) -> Any:
        """Call the model with a limit on the total time: a read timeout would not stop a server that sends a byte now and then."""
        with alone():
            async with asyncio.timeout(self._timeout_s):
                return await runnable.ainvoke(messages, config=_NO_CALLBACKS)

    async def _next(self, chunks: Any) -> Any:
        """Wait for the next chunk, with a time limit for each. Keep-alive messages do not count as chunks."""
        with translating(), alone():
            async with asyncio.timeout(self._timeout_s):
                return await anext(chunks, None)


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _ReplyBuffer:
    """Collects an answer, and enforces its size limit."""

    limit: int
    text: list[str] = field(default_factory=list[str])
    calls: list[_Call] = field(default_factory=list[_Call])
    usage: UsageMetadata | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    _size: int = 0
    _loops: LoopDetector = field(default_factory=LoopDetector)
    _open: dict[Any, _Call] = field(default_factory=dict[Any, _Call])

    def add(self, message: AIMessageChunk) -> str:
        """Add a chunk of a stream and return its text."""
        _check_refusal(message)
        self.metadata |= message.response_metadata
        self.usage = self.usage if message.usage_metadata is None else add_usage(self.usage, message.usage_metadata)
        for part in message.tool_call_chunks:
            self._add_part(part)
        text = str(message.text)
        self.add_text(text)
        return text

    def add_text(self, text: str) -> None:
        self._count(text)
        self._loops.add(text)
        self.text.append(text)

    def add_call(self, given_id: str | None, name: str, arguments: str) -> None:
        self._count(name + arguments)
        self.calls.append(_Call(given_id or "", name, arguments))

    def _add_part(self, part: ToolCallChunk) -> None:
        """Add a part of a tool call. The first part has the id and name; later parts with the same index extend the arguments."""
        index, given = part.get("index"), part["id"] or ""
        call = self._open.get(index)
        if call is None or index is None or (given and call.id and given != call.id):
            call = self._open[index] = _Call()
            self.calls.append(call)
        name, arguments = part["name"] or "", part["args"] or ""
        self._count(given + name + arguments)
        call.id = call.id or given
        call.name += name
        call.arguments += arguments

    def _count(self, text: str) -> None:
        try:
            self._size += len(text.encode())
        except UnicodeEncodeError as error:
            raise ModelOutputInvalid("The model's answer is not valid text: half of a surrogate pair.") from error
        if self._size > self.limit:
            raise ModelOutputInvalid(f"The model's answer is larger than {self.limit:,} bytes.")

    def check_end(self) -> None:
        """Raise ModelUnavailable for a stream that broke off: OpenAI's last chunk has a finish reason."""
        if self.metadata.get("model_provider") == "openai" and not any(self.metadata.get(key) for key in _FINISH_KEYS):
            raise ModelUnavailable("The model's server closed the connection in the middle of an answer. Try again.")

    def finished(self, messages: Iterable[Message], tools: Sequence[Tool], *, broken: bool) -> tuple[ToolCall, ...]:
        """Check that the answer is not empty, and return its valid tool calls. Invalid ones are dropped if others are valid."""
        valid = [(call, arguments) for call in self.calls if (arguments := _arguments(call)) is not None]
        if not valid and (self.calls or broken):
            raise ModelOutputInvalid("The tool calls of the model cannot be parsed.")
        if not valid and not "".join(self.text).strip():
            raise ModelOutputInvalid("The model's answer is empty.")
        taken = {call.id for message in messages for call in message.calls}
        known = dict(zip(_wire_names(tools), (tool.name for tool in tools), strict=True))
        return tuple(
            ToolCall(id=_unique_id(call.id, taken), name=known.get(call.name, call.name), arguments=arguments) for call, arguments in valid
        )


def _wire_names(tools: Sequence[Tool]) -> list[str]:
    """Return unique tool names that servers accept: letters, digits, '_' and '-'."""
    names: list[str] = []
    own = {tool.name for tool in tools}  # a tool with a valid name keeps it
    for tool in tools:
        name = plain = _wire_name(tool.name)
        count = len(names)
        while name in names or (name != tool.name and name in own):
            name = f"{plain[:60]}_{count}"
            count += 1
        names.append(name)
    return names


def _wire_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def _arguments(call: _Call) -> dict[str, Any] | None:
    """Parse the arguments of a call strictly. LangChain would complete truncated JSON."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", arguments) if call.name and isinstance(arguments, dict) else None


def _unique_id(given: str, taken: set[str]) -> str:
    """Return the id of a call, or a new one if another call of the conversation has it."""
    own = given
    count = len(taken)
    while not own or own in taken:
        count += 1
        own = f"call-{count}"
    taken.add(own)
    return own


def _assistant(message: object) -> AIMessage:
    if not isinstance(message, AIMessage):
        raise ModelOutputInvalid("The model's server returned a message that is not the assistant's.")
    return message


def _chunk(message: object) -> AIMessageChunk:
    """Return a chunk of a stream. A model that cannot stream returns the whole answer at once."""
    whole = _assistant(message)
    if isinstance(whole, AIMessageChunk):
        return whole
    return AIMessageChunk(**whole.model_dump(exclude={"type"}))


def _check_refusal(message: AIMessage) -> None:
    if message.response_metadata.get("finish_reason") == "content_filter":
        raise ModelRefused("The model's server filtered the answer.")
    if message.additional_kwargs.get("refusal"):
        raise ModelRefused("The model refuses to answer this.")


def _check_complete(metadata: Mapping[str, Any]) -> None:
    """Raise ModelCutOff for an answer that reached its token limit: half an answer may say the opposite of the whole."""
    if any(str(metadata.get(key)).lower() in _CUT_OFF for key in (*_FINISH_KEYS, "stop_reason")):
        raise ModelCutOff


def _decision_text(message: AIMessage) -> str:
    """Return the JSON of a decision: the arguments of its only tool call, or else its text."""
    if len(message.tool_calls) == 1:
        return json.dumps(message.tool_calls[0]["args"])
    return str(message.text)


def _to_langchain(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[BaseMessage]:
    """Convert a conversation to LangChain messages, with the wire names of tools."""
    names = {tool.name: name for name, tool in zip(_wire_names(tools), tools, strict=True)}
    return [
        _assistant_message(message, names) if message.role == "assistant" else _CONVERTERS[message.role](message) for message in messages
    ]


def _user(message: Message) -> BaseMessage:
    if not message.images:
        return HumanMessage(content=message.text)
    if not all(image.startswith("data:") for image in message.images):
        raise ModelRefused("An image is not a data URI. URLs are not passed on, because the model's server would fetch them.")
    blocks: list[str | dict[Any, Any]] = [{"type": "image_url", "image_url": {"url": image}} for image in message.images]
    return HumanMessage(content=[*([{"type": "text", "text": message.text}] if message.text else []), *blocks])


def _assistant_message(message: Message, names: Mapping[str, str]) -> BaseMessage:
    calls = [
        {"name": names.get(call.name) or _wire_name(call.name), "args": call.arguments, "id": call.id, "type": "tool_call"}
        for call in message.calls
    ]
    return AIMessage(content=message.text, tool_calls=calls)


_CONVERTERS: Mapping[Role, Callable[[Message], BaseMessage]] = {
    "system": lambda message: SystemMessage(content=message.text),
    "user": _user,
    "tool": lambda message: ToolMessage(content=message.text, tool_call_id=message.answers or ""),
}


def open_provider(
    name: str,
    *,
    base_url: str | None,
    api_key: str | None,
    timeout_s: float,
    max_tokens: int,
    max_reply_bytes: int,
    known_as: str | None = None,
    takes_cut_text: bool = False,
) -> LangChainModel:
    """Open `provider:name`. With a base URL, the provider's key in the environment is not sent: it is for another server."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise SettingsInvalid(f"Model '{name}' is unknown. Name it as 'provider:name', such as 'openai:gpt-5'.")
    _check_url(base_url)
    _check_key(api_key)
    options: dict[str, Any] = {"timeout": timeout_s, "max_tokens": max_tokens, "max_retries": 0}
    if base_url is not None:
        options |= {"base_url": base_url, "api_key": api_key or "none"}
    elif api_key is not None:
        options |= {"api_key": api_key}
    close: Callable[[], Awaitable[None]] | None = None
    if provider == "openai":
        # Escapes in JSON may take four bytes for one; the rest is for the envelope of the reply.
        max_body_bytes = 4 * max_reply_bytes + 1024 * 1024
        client = bounded_client(base_url or "https://api.openai.com", max_body_bytes=max_body_bytes, timeout_s=timeout_s)
        # LangChainModel has its own timeout between chunks, for every provider; OpenAI's would also write to the log.
        options |= {"http_async_client": client, "stream_usage": True, "stream_chunk_timeout": None}
        close = client.aclose
    chat = _init(provider, model, options)
    return LangChainModel(
        chat,
        name=known_as or name,
        max_reply_bytes=max_reply_bytes,
        timeout_s=timeout_s,
        close=close,
        takes_cut_text=takes_cut_text,
    )


def _init(provider: str, model: str, options: Mapping[str, Any]) -> BaseChatModel:
    """Create the chat model. Raises SettingsInvalid without the exception's own text, which may contain the key."""
    from langchain.chat_models import init_chat_model  # noqa: PLC0415 - takes a while, and a local model's caller may only check

    try:
        return cast("BaseChatModel", init_chat_model(model, model_provider=provider, **options))
    except ImportError as error:
        package = (getattr(error.__cause__, "name", None) or f"langchain_{provider}").partition(".")[0].replace("_", "-")
        raise SettingsInvalid(f"Provider '{provider}' is not installed. Fix: pip install {package}") from error
    except Exception as error:
        if "OpenAIError" in {base.__name__ for base in type(error).__mro__}:
            raise SettingsInvalid(f"Model '{provider}:{model}' needs a key. Set INTERLOCK_MODEL_API_KEY.") from error
        if str(error).startswith("Unsupported provider"):
            package = f"langchain-{provider.replace('_', '-')}"
            raise SettingsInvalid(f"LangChain does not know provider '{provider}'. If it has a package: pip install {package}") from error
        raise SettingsInvalid(f"Model '{provider}:{model}' cannot be opened with these settings. Check INTERLOCK_MODEL.") from error


def _check_url(base_url: str | None) -> None:
    if base_url is None:
        return
    try:
        url = urlsplit(base_url)
        good = url.scheme in {"http", "https"} and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        good = False
    if not good:
        raise SettingsInvalid("INTERLOCK_MODEL_BASE_URL is not an http or https URL, such as 'http://127.0.0.1:8080/v1'.")


def _check_key(api_key: str | None) -> None:
    """Reject a key that is not valid in a header, because the later error would show it."""
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key and api_key):
        raise SettingsInvalid("INTERLOCK_MODEL_API_KEY is empty, or has characters that are not valid in a key.")
