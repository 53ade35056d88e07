"""OpenTelemetry spans of turns, by the GenAI semantic conventions and OpenInference's attributes of graphs.

Spans are created from events, which are redacted. Messages and tool arguments are left out unless `trace_content` is set.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from interlock.runtime.events import Event, Observer

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanKind

__all__ = ["Spans", "span_observer"]

# The names are those of the published conventions; a test compares them with the constants of the packages that publish them.
OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
RESPONSE_MODEL = "gen_ai.response.model"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"
KIND = "openinference.span.kind"
AGENT_NAME = "agent.name"
NODE_ID = "graph.node.id"
NODE_NAME = "graph.node.name"
NODE_PARENT = "graph.node.parent_id"

_UNKNOWN_PROVIDER = "_OTHER"
_OPERATIONS = {"chat_model": ("chat", "LLM"), "tool": ("execute_tool", "TOOL")}


def span_observer(*, content: bool = False) -> Observer | None:
    """Return an observer that creates spans, or None if OpenTelemetry is not configured. It is not imported then."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Spans(content=content)


class Spans:
    """Creates a span for every run: the turn, its nodes, their subgraphs and their capability calls."""

    def __init__(self, *, content: bool = False) -> None:
        from opentelemetry import context, trace  # noqa: PLC0415 - only where it is configured

        self._context = context
        self._trace = trace
        self._tracer = trace.get_tracer("interlock")
        self._content = content
        self._open: dict[str, tuple[Span, Any, Any]] = {}
        self._agent: str | None = None

    def on_event(self, event: Event) -> None:
        """Start or end a span."""
        kind, _, moment = event["event"].removeprefix("on_").rpartition("_")
        if moment == "start":
            self._start(event, kind)
        elif moment in {"end", "error"} and event["run_id"] in self._open:
            self._end(event, kind)

    def _start(self, event: Event, kind: str) -> None:
        parent = self._open.get(event["parent_ids"][-1]) if event["parent_ids"] else None
        inside = None if parent is None else self._trace.set_span_in_context(parent[0])
        name, span_kind, attributes = self._described(event, kind)
        found = {f"interlock.{key}": value for key, value in event["metadata"].items() if isinstance(value, str | int)}
        attributes |= {**found, "interlock.run_id": event["run_id"]}
        span = self._tracer.start_span(name, context=inside, kind=span_kind, attributes=attributes)
        # Spans that an adapter creates, such as those of an HTTP client, become children of this one.
        token = self._context.attach(self._trace.set_span_in_context(span))
        self._open[event["run_id"]] = span, token, asyncio.current_task()

    def _described(self, event: Event, kind: str) -> tuple[str, SpanKind, dict[str, Any]]:
        """Return the name of a span, its kind, and its attributes at the start."""
        internal = self._trace.SpanKind.INTERNAL
        name, metadata = event["name"], event["metadata"]
        if kind in _OPERATIONS:
            operation, span_type = _OPERATIONS[kind]
            attributes: dict[str, Any] = {OPERATION: operation, KIND: span_type, **self._node_of(metadata)}
            if kind == "tool":
                attributes |= {TOOL_NAME: name, TOOL_TYPE: "function", TOOL_CALL_ID: event["run_id"]}
                if self._content:
                    attributes[TOOL_ARGUMENTS] = json.dumps(event["data"].get("input"), ensure_ascii=False)
                return f"{operation} {name}", internal, attributes
            attributes[PROVIDER] = _UNKNOWN_PROVIDER
            if self._content:
                attributes[INPUT_MESSAGES] = _messages(event["data"].get("input"))
            return operation, self._trace.SpanKind.CLIENT, attributes
        if kind != "chain":
            return f"call {name}", internal, {KIND: "CHAIN", **self._node_of(metadata)}
        if "langgraph_node" in metadata:
            return f"node {name}", internal, {KIND: "CHAIN", **self._node_of(metadata)}
        if event["parent_ids"]:
            return f"graph {name}", internal, {KIND: "CHAIN"}
        self._agent = str(metadata.get("agent", name))
        attributes = {OPERATION: "invoke_agent", PROVIDER: "interlock", AGENT: self._agent, AGENT_NAME: self._agent, KIND: "AGENT"}
        if "session" in metadata:
            attributes[CONVERSATION] = str(metadata["session"])
        return f"invoke_agent {self._agent}", internal, attributes

    def _node_of(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of the node that an event belongs to. A node path starts with the nodes of the parent graphs."""
        path = metadata.get("langgraph_node")
        if path is None:
            return {}
        around, _, name = str(path).rpartition("/")
        parent = {NODE_PARENT: around or self._agent} if around or self._agent else {}
        return {NODE_ID: str(path), NODE_NAME: name, **parent}

    def _end(self, event: Event, kind: str) -> None:
        span, token, task = self._open.pop(event["run_id"])
        # A token can be detached only in the context of the task that attached it.
        if task is asyncio.current_task():
            self._context.detach(token)
        output = _as_dict(event["data"].get("output"))
        if output and kind == "chat_model":
            self._answered(span, output)
        elif output and kind == "tool" and self._content:
            span.set_attribute(TOOL_RESULT, json.dumps(output, ensure_ascii=False))
        elif not event["parent_ids"]:
            span.set_attributes(_usage(output.get("usage")))
        error = event["data"].get("error") or _turn_error(event)
        if error:
            span.set_attribute(ERROR_TYPE, error["code"])
            span.set_status(self._trace.StatusCode.ERROR, f"{error['code']}: {error['message']}")
        span.end()

    def _answered(self, span: Span, output: Mapping[str, Any]) -> None:
        """Add the attributes of a finished model call: model, tokens and, with content, the reply."""
        model = output.get("model") or _as_dict(output.get("metadata")).get("model")
        if isinstance(model, str) and model:
            provider, has_provider, _ = model.partition(":")
            span.update_name(f"chat {model}")
            span.set_attributes({RESPONSE_MODEL: model, PROVIDER: provider if has_provider else _UNKNOWN_PROVIDER})
        span.set_attributes(_usage(output.get("usage") or output.get("metadata")))
        if self._content:
            found = output.get("text", output.get("output"))
            text = found if isinstance(found, str) else json.dumps(output.get("value"), ensure_ascii=False)
            reply: dict[str, Any] = {"role": "assistant", "text": text, "calls": output.get("calls") or ()}
            span.set_attribute(OUTPUT_MESSAGES, json.dumps([{**_message(reply), "finish_reason": "stop"}], ensure_ascii=False))


def _as_dict(found: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _usage(given: Any) -> dict[str, int]:
    found = _as_dict(given)
    names = {INPUT_TOKENS: "input_tokens", OUTPUT_TOKENS: "output_tokens"}
    return {attribute: found[name] for attribute, name in names.items() if isinstance(found.get(name), int)}


def _messages(given: Any) -> str:
    """Write the messages of a model call in the format of the conventions. Events have one list of messages for each call."""
    messages = cast("list[Any]", given or [])
    if messages and isinstance(messages[0], list):
        messages = cast("list[Any]", messages[0])
    return json.dumps([_message(_as_dict(one)) for one in messages], ensure_ascii=False)


def _message(one: Mapping[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    text = one.get("text", one.get("prompt"))
    if one.get("role") == "tool":
        parts.append({"type": "tool_call_response", "id": one.get("answers"), "response": text})
    elif text:
        parts.append({"type": "text", "content": text})
    parts += [
        {"type": "tool_call", "id": call.get("id"), "name": call["name"], "arguments": call.get("arguments")}
        for call in one.get("calls") or ()
    ]
    return {"role": one.get("role", "user"), "parts": parts}


def _turn_error(event: Event) -> dict[str, Any] | None:
    """Return the error of a turn that did not succeed, from the result in its last event."""
    output: Any = event["data"].get("output")
    return None if event["parent_ids"] or not output else output["error"]
