"""A server on loopback that speaks OpenAI's protocol: strict as OpenAI, or in one of the ways in which others differ."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from tests.support.strict_schema import fitted, violations

__all__ = ["KEY", "KINDS", "MODEL", "Call", "Kind", "OpenAIServer", "Refusal", "error_body"]

Kind = Literal["strict", "lenient", "fenced", "truncating", "reasoning", "in parts"]
KINDS: tuple[Kind, ...] = ("strict", "lenient", "fenced", "truncating", "reasoning", "in parts")
KEY = "sk-loopback-0123456789abcdef"
MODEL = "tiny"

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Call:
    """A call of a tool that the model asks for, by the name that the tool has on the wire."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """An answer that is an error."""

    status: int
    body: Mapping[str, Any]


Answer = str | Mapping[str, Any] | tuple[Call, ...] | Refusal


def error_body(message: str, *, kind: str = "invalid_request_error", param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """What OpenAI answers in the place of a completion."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass
class OpenAIServer:
    """Answers by what it is asked for: a schema by its name, tools (`tools`), or anything else (`text`).

    Of several answers each is given once and the last one for ever. A mapping is an answer in JSON. Use it as a context.
    """

    kind: Kind
    answers: Mapping[str, list[Answer]]
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    refused: list[str] = field(default_factory=list[str])
    """What was wrong with the requests that were not taken."""

    def __post_init__(self) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of an application that asks this server."""
        return {"model": f"openai:{MODEL}", "model_base_url": self.url, "model_api_key": KEY, **more}

    def answer(self, request: dict[str, Any], key: str) -> tuple[int, Mapping[str, Any] | list[dict[str, Any]]]:
        """Answer a request: the status and the body, a list of events where it asks for a stream."""
        with self._lock:
            self.requests.append(request)
            wrong = self._wrong(request, key)
            if wrong is not None:
                self.refused.append(wrong[1]["error"]["message"])
                return wrong
            left = self.answers[_asked_for(request)]
            given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Refusal):
            return given.status, given.body
        message, finish = self._message(given, request)
        if not request.get("stream"):
            return 200, _whole(message, finish)
        return 200, list(_events(message, finish, in_parts=self.kind == "in parts"))

    def _wrong(self, request: dict[str, Any], key: str) -> tuple[int, dict[str, Any]] | None:
        if key != f"Bearer {KEY}":
            told = error_body(f"Incorrect API key provided: {key[-8:]}.", code="invalid_api_key")
            return 401, told
        if request["model"] != MODEL:
            name = request["model"]
            return 404, error_body(f"The model `{name}` does not exist or you do not have access to it.", code="model_not_found")
        for tool in request.get("tools", ()):
            function = tool["function"]
            if not _TOOL_NAME.fullmatch(function["name"]) or function.get("parameters", {}).get("type") != "object":
                return 400, error_body(
                    f"Invalid schema for function '{function['name']}'", param="tools", code="invalid_function_parameters"
                )
            if function.get("strict") and self.kind != "lenient" and (found := violations(function["parameters"])):
                return 400, error_body(f"Invalid schema for function '{function['name']}': {found[0]}", param="tools")
        told = request.get("response_format", {})
        if told.get("type") == "json_schema" and told["json_schema"].get("strict") and self.kind != "lenient":
            found = violations(told["json_schema"]["schema"])
            if found:
                name = told["json_schema"]["name"]
                return 400, error_body(f"Invalid schema for response_format '{name}': {found[0]}", param="response_format")
        return None

    def _message(self, given: str | Mapping[str, Any] | tuple[Call, ...], request: dict[str, Any]) -> tuple[dict[str, Any], str]:
        thinking = {"reasoning_content": "The user wants an answer. {Let me think}"} if self.kind == "reasoning" else {}
        if isinstance(given, str | Mapping):
            text = given if isinstance(given, str) else self._written(given, request)
            if self.kind == "truncating":
                return {"role": "assistant", "content": text[: len(text) // 2]}, "length"
            return {"role": "assistant", "content": text, **thinking}, "stop"
        calls = [
            {"id": f"call_{number}", "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for number, call in enumerate(given)
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls, **thinking}, "tool_calls"

    def _written(self, given: Mapping[str, Any], request: dict[str, Any]) -> str:
        """Write a decision: held to the schema, or as somebody writes who was never told of one."""
        if self.kind == "lenient":
            return json.dumps(given)
        if self.kind == "fenced":
            return f"Sure! Here is what you asked for:\n\n```json\n{json.dumps(given, indent=2)}\n```\n\nLet me know if you need more."
        told = request.get("response_format", {}).get("json_schema")
        return json.dumps(given if told is None else fitted(given, told["schema"]))


def _asked_for(request: Mapping[str, Any]) -> str:
    told = request.get("response_format", {}).get("json_schema")
    return told["name"] if told is not None else "tools" if request.get("tools") else "text"


_USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def _whole(message: dict[str, Any], finish: str) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"refusal": None, **message}}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": _USAGE}


def _events(message: dict[str, Any], finish: str, *, in_parts: bool) -> Iterator[dict[str, Any]]:
    size = 1 if in_parts else 6
    yield _event({"role": "assistant", "content": ""})
    for text in _cut(message.get("reasoning_content", ""), size):
        yield _event({"reasoning_content": text})
    for text in _cut(message["content"] or "", size):
        yield _event({"content": text})
    yield from _call_events(message.get("tool_calls", ()), in_parts=in_parts)
    yield _event({}, finish)
    yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [], "usage": _USAGE}


def _call_events(calls: Sequence[dict[str, Any]], *, in_parts: bool) -> Iterator[dict[str, Any]]:
    """Stream calls whole, or the first part of each and then the arguments of all by turns."""
    if not in_parts:
        yield from (_event({"tool_calls": [{"index": number, **call}]}) for number, call in enumerate(calls))
        return
    for number, call in enumerate(calls):
        first = {"index": number, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield _event({"tool_calls": [first]})
    left = [call["function"]["arguments"] for call in calls]
    while any(left):
        for number, arguments in enumerate(left):
            left[number] = arguments[3:]
            if arguments:
                yield _event({"tool_calls": [{"index": number, "function": {"arguments": arguments[:3]}}]})


def _cut(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "delta": delta}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = server.answer(request, self.headers.get("authorization", ""))
            if isinstance(body, list):
                events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in body)
                self._send(status, "text/event-stream", events + b"data: [DONE]\n\n")
            else:
                self._send(status, "application/json", json.dumps(body).encode())

        def do_GET(self) -> None:
            self._send(200, "application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's own
            pass

    return Handler
