"""Any LangChain chat model as a Model: one call for one question, strict about what comes back."""

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

from interlock.adapters.models.bounded import bounded_client
from interlock.adapters.models.failures import translating
from interlock.adapters.models.repetition import LoopDetector
from interlock.adapters.models.structured import StructuredOutput
from interlock.capabilities.model import Chunk, Decision, Message, ModelReply, Role, Tool, ToolCall, Usage
from interlock.engine.ambient import alone
from interlock.errors import ModelCutOff, ModelOutputInvalid, ModelRefused, ModelUnavailable, SettingsInvalid

__all__ = ["LangChainModel", "open_provider"]

T = TypeVar("T", bound=BaseModel)

_ALONE: RunnableConfig = {"callbacks": []}
"""LangChain's callbacks and traces would carry what the gate redacts: the gate's own events are the only ones."""

_ENDINGS = ("finish_reason", "status")
"""Where OpenAI's two kinds of answers say why they end."""

_CUT_OFF = frozenset({"length", "max_tokens", "incomplete"})
"""How providers say that an answer ends because it had no more room."""

_structured = functools.lru_cache(maxsize=256)(StructuredOutput)


class LangChainModel:
    """Asks a chat model and never asks twice: whether a call is made again is for the caller to say."""

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
        """`takes_cut_text` is for a model that hardly ever ends by itself: its text is taken as far as it came."""
        self._takes_cut_text = takes_cut_text
        self._chat = chat
        self._name = name
        self._max_reply_bytes = max_reply_bytes
        self._timeout_s = timeout_s
        self._close = close

    @property
    def name(self) -> str:
        """The name that its answers carry."""
        return self._name

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Answer, or ask for tools to be called; with a schema, in JSON as far as the model can be held to it."""
        if schema is not None and not tools:
            with translating():
                structured = _structured(schema)
                text, usage = await self._ask_json(messages, structured)
                return ModelReply(text=structured.as_class_json(text), model=self._name, usage=usage)
        with translating():
            said = _assistant(await self._ask(self._offering(tools), _to_langchain(messages, tools)))
            _check_refusal(said)
            self._check_text(said.response_metadata)
            heard = _Heard(limit=self._max_reply_bytes)
            heard.add_text(str(said.text))
            for call in said.tool_calls:
                heard.add_call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
            return ModelReply(
                text="".join(heard.text),
                calls=heard.finished(messages, tools, broken=bool(said.invalid_tool_calls)),
                model=self._name,
                usage=_usage(said.usage_metadata),
            )

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Answer piece by piece; the last one carries the calls and how many tokens it took."""
        heard = _Heard(limit=self._max_reply_bytes)
        with translating():
            pieces = self._offering(tools).astream(_to_langchain(messages, tools), config=_ALONE)
        async with aclosing(cast("AsyncGenerator[AIMessageChunk, None]", pieces)):
            while (said := await self._next(pieces)) is not None:
                with translating():
                    text = heard.add(_chunk(said))
                if text:
                    yield Chunk(text=text, model=self._name)
        with translating():
            heard.check_end()
            self._check_text(heard.metadata)
            calls = heard.finished(messages, tools, broken=False)
        yield Chunk(calls=calls, model=self._name, usage=_usage(heard.usage))

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Answer with an instance of a pydantic class. The values are the model's own: none is made up or converted."""
        with translating():
            structured = _structured(schema)
            text, usage = await self._ask_json(messages, structured)
            return Decision(value=structured.read(text, schema), model=self._name, usage=usage)

    async def _ask_json(self, messages: Sequence[Message], structured: StructuredOutput) -> tuple[str, Usage | None]:
        """Ask for JSON of a shape, in whichever way the model can be held to one; return what it said as it said it."""
        # OpenAI's client holds a model to a schema only where it is told to; the others have no such option.
        strict = {"strict": True} if "strict" in inspect.signature(self._chat.with_structured_output).parameters else {}
        asked: Runnable[Any, Any] = self._chat.with_structured_output(structured.schema, include_raw=True, **strict)
        answer = await self._ask(asked, _to_langchain(messages))
        said = _assistant(cast("Mapping[str, Any]", answer)["raw"])
        _check_refusal(said)
        _check_whole(said.response_metadata)
        heard = _Heard(limit=self._max_reply_bytes)
        heard.add_text(_decision_text(said))
        heard.finished(messages, (), broken=False)
        return "".join(heard.text), _usage(said.usage_metadata)

    async def aclose(self) -> None:
        """Let go of the connection to the server."""
        if self._close is not None:
            await self._close()

    def _check_text(self, metadata: Mapping[str, Any]) -> None:
        if not self._takes_cut_text:
            _check_whole(metadata)

    def _offering(self, tools: Sequence[Tool]) -> Runnable[Any, Any]:
        if not tools:
            return self._chat
        return self._chat.bind_tools(
            [
                {"type": "function", "function": {"name": name, "description": tool.description, "parameters": tool.parameters}}
                for name, tool in zip(_wire_names(tools), tools, strict=True)
            ]
        )

    async def _ask(self, asked: Runnable[Any, Any], messages: list[BaseMessage]) -> Any:
        """Ask with a limit on the whole: a server that sends a byte now and then is never silent for long."""
        with alone():
            async with asyncio.timeout(self._timeout_s):
                return await asked.ainvoke(messages, config=_ALONE)

    async def _next(self, pieces: Any) -> Any:
        """Wait for the next piece of a stream, with a limit on each: what keeps a connection alive is not a piece."""
        with translating(), alone():
            async with asyncio.timeout(self._timeout_s):
                return await anext(pieces, None)


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Heard:
    """What has been said so far, within the limit."""

    limit: int
    text: list[str] = field(default_factory=list[str])
    calls: list[_Call] = field(default_factory=list[_Call])
    usage: UsageMetadata | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    _size: int = 0
    _loops: LoopDetector = field(default_factory=LoopDetector)
    _open: dict[Any, _Call] = field(default_factory=dict[Any, _Call])

    def add(self, said: AIMessageChunk) -> str:
        """Take a piece of a stream and return its text."""
        _check_refusal(said)
        self.metadata |= said.response_metadata
        self.usage = self.usage if said.usage_metadata is None else add_usage(self.usage, said.usage_metadata)
        for part in said.tool_call_chunks:
            self._add_part(part)
        text = str(said.text)
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
        """Take a part of a call: the first one says its id and name, the others of the same index go on with its arguments."""
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

    def _count(self, said: str) -> None:
        try:
            self._size += len(said.encode())
        except UnicodeEncodeError as error:
            raise ModelOutputInvalid("The model's answer is not valid text: half of a surrogate pair.") from error
        if self._size > self.limit:
            raise ModelOutputInvalid(f"The model's answer is larger than {self.limit:,} bytes.")

    def check_end(self) -> None:
        """Tell an answer that ended from one that broke off where the connection cannot: OpenAI's kind says why it ends."""
        if self.metadata.get("model_provider") == "openai" and not any(self.metadata.get(key) for key in _ENDINGS):
            raise ModelUnavailable("The model's server broke off in the middle of an answer.")

    def finished(self, messages: Iterable[Message], tools: Sequence[Tool], *, broken: bool) -> tuple[ToolCall, ...]:
        """Check that something was said, and return the calls that can be made. Those that cannot are dropped if others can."""
        valid = [(call, arguments) for call in self.calls if (arguments := _arguments(call)) is not None]
        if not valid and (self.calls or broken):
            raise ModelOutputInvalid("The model asked for tools in a way that cannot be understood.")
        if not valid and not "".join(self.text).strip():
            raise ModelOutputInvalid("The model's answer is empty.")
        taken = {call.id for message in messages for call in message.calls}
        known = dict(zip(_wire_names(tools), (tool.name for tool in tools), strict=True))
        return tuple(
            ToolCall(id=_own_id(call.id, taken), name=known.get(call.name, call.name), arguments=arguments) for call, arguments in valid
        )


def _wire_names(tools: Sequence[Tool]) -> list[str]:
    """Name tools as servers take it: letters, digits, '_' and '-'; an own name for each."""
    names: list[str] = []
    own = {tool.name for tool in tools}  # whoever has such a name keeps it
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
    """Read the arguments of a call as they are; LangChain would close what was left open."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", arguments) if call.name and isinstance(arguments, dict) else None


def _own_id(given: str, taken: set[str]) -> str:
    """Keep the id of a call if no other call of the conversation has it."""
    own = given
    count = len(taken)
    while not own or own in taken:
        count += 1
        own = f"call-{count}"
    taken.add(own)
    return own


def _assistant(said: object) -> AIMessage:
    if not isinstance(said, AIMessage):
        raise ModelOutputInvalid("The model's server answered in the name of somebody else.")
    return said


def _chunk(said: object) -> AIMessageChunk:
    """Take a piece of a stream; a model that cannot stream gives the whole at once."""
    whole = _assistant(said)
    if isinstance(whole, AIMessageChunk):
        return whole
    return AIMessageChunk(**whole.model_dump(exclude={"type"}))


def _check_refusal(said: AIMessage) -> None:
    if said.response_metadata.get("finish_reason") == "content_filter":
        raise ModelRefused("The model's server filtered the answer.")
    if said.additional_kwargs.get("refusal"):
        raise ModelRefused("The model refuses to answer this.")


def _check_whole(metadata: Mapping[str, Any]) -> None:
    """Refuse an answer that ends because it had no more room: half of an answer may say the opposite of the whole."""
    if any(str(metadata.get(key)).lower() in _CUT_OFF for key in (*_ENDINGS, "stop_reason")):
        raise ModelCutOff


def _decision_text(said: AIMessage) -> str:
    """Find the JSON: a model that decides by calling a tool may say something beside it, one that writes JSON calls nothing."""
    if len(said.tool_calls) == 1:
        return json.dumps(said.tool_calls[0]["args"])
    return str(said.text)


def _usage(said: UsageMetadata | None) -> Usage | None:
    """Take the counts if they are counts: a server may say anything."""
    if said is None:
        return None
    counts: list[Any] = [said.get("input_tokens"), said.get("output_tokens")]
    if not all(isinstance(count, int) and count >= 0 for count in counts) or not any(counts):
        return None
    return Usage(input_tokens=counts[0], output_tokens=counts[1])


def _to_langchain(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[BaseMessage]:
    """Write a conversation; a call of a tool that is offered has the name that it is offered under."""
    names = {tool.name: name for name, tool in zip(_wire_names(tools), tools, strict=True)}
    return [_assistant_message(message, names) if message.role == "assistant" else _MAKERS[message.role](message) for message in messages]


def _user(message: Message) -> BaseMessage:
    if not message.images:
        return HumanMessage(content=message.text)
    if not all(image.startswith("data:") for image in message.images):
        raise ModelRefused("An image is not a data URI: the model's server is not sent to fetch anything.")
    blocks: list[str | dict[Any, Any]] = [{"type": "image_url", "image_url": {"url": image}} for image in message.images]
    return HumanMessage(content=[*([{"type": "text", "text": message.text}] if message.text else []), *blocks])


def _assistant_message(message: Message, names: Mapping[str, str]) -> BaseMessage:
    calls = [
        {"name": names.get(call.name) or _wire_name(call.name), "args": call.arguments, "id": call.id, "type": "tool_call"}
        for call in message.calls
    ]
    return AIMessage(content=message.text, tool_calls=calls)


_MAKERS: Mapping[Role, Callable[[Message], BaseMessage]] = {
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
    """Open `provider:name`. With a base URL the provider's own key in the environment is not used: it is for another server."""
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
        # JSON may take four bytes for one, with escapes; the rest is what stands around the reply.
        max_body_bytes = 4 * max_reply_bytes + 1024 * 1024
        client = bounded_client(base_url or "https://api.openai.com", max_body_bytes=max_body_bytes, timeout_s=timeout_s)
        # The silence of a stream is measured here, for every provider; theirs writes to the log.
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
    """Make the chat model. What goes wrong here is a setting; the exception's own text is not shown, since it may hold the key."""
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
            raise SettingsInvalid(f"LangChain knows no provider '{provider}'. If there is one: pip install {package}") from error
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
    """Refuse a key that cannot stand in a header, because the failure later would show it."""
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key and api_key):
        raise SettingsInvalid("INTERLOCK_MODEL_API_KEY is empty, or has characters that no key has.")
