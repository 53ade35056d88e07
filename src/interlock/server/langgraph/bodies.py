"""The bodies of requests in LangGraph's shapes. What Interlock does not do is refused by its name, and never ignored."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from interlock.errors import InputEncoding, InputSchema
from interlock.input import check_characters, check_size
from interlock.runtime.turns import Policy
from interlock.server.request_errors import RequestError
from interlock.server.routing import read_body

__all__ = [
    "MODES",
    "CancelBody",
    "CheckpointBody",
    "HistoryBody",
    "RunBody",
    "SearchBody",
    "ThreadBody",
    "ThreadPatch",
    "check_metadata",
    "modes_of",
    "read_shape",
]

MODES = ("values", "updates", "messages", "messages-tuple", "custom", "events", "tasks", "checkpoints", "debug")
_METADATA_BYTES = 64 * 1024
B = TypeVar("B", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class CommandBody(_Body):
    """What a client tells a suspended run."""

    resume: Any = None
    update: Any = None
    goto: Any = None
    graph: str | None = None


class RunBody(_Body):
    """A run to be created."""

    assistant_id: str
    input: Any = None
    command: CommandBody | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: dict[str, Any] | None = None
    checkpoint_id: str | None = None
    checkpoint_during: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    interrupt_before: str | list[str] | None = None
    interrupt_after: str | list[str] | None = None
    webhook: str | None = None
    feedback_keys: list[str] | None = None
    multitask_strategy: Policy | None = None
    if_not_exists: Literal["reject", "create"] | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    after_seconds: float | None = Field(None, ge=0, le=1e9, allow_inf_nan=False)
    strict_resume: bool | None = None
    langsmith_tracer: Any = None

    def check(self) -> None:
        """Refuse what a client cannot do to an agent. Raises InputSchema."""
        command = self.command
        refused = {
            "command.update": command is not None and command.update,
            "command.goto": command is not None and command.goto,
            "command.graph": command is not None and command.graph,
            "interrupt_before": self.interrupt_before,
            "interrupt_after": self.interrupt_after,
            "context": self.context,
            "webhook": self.webhook,
            "feedback_keys": self.feedback_keys,
            "langsmith_tracer": self.langsmith_tracer,
        }
        name = next((name for name, given in refused.items() if given), None)
        if name is not None:
            raise InputSchema(f"'{name}' is refused: {_REASONS[name]}.")
        configurable = cast("Any", (self.config or {}).get("configurable") or {})
        if not isinstance(configurable, dict):
            raise InputSchema("'config.configurable' is an object.")
        unknown = [key for key in cast("dict[str, Any]", configurable) if key not in _CONFIGURABLE and not key.startswith("__")]
        if unknown:
            raise InputSchema(f"'config.configurable.{unknown[0]}' is refused: an agent is configured by its server, not by a client.")
        if self.command is not None and self.command.resume is None:
            raise InputSchema("'command' has no 'resume', and nothing else can be done by it.")
        if self.command is not None and self.input is not None:
            raise InputSchema("A run has an 'input' or a 'command', not both.")
        check_metadata(self.metadata)

    @property
    def wanted_checkpoint(self) -> str | None:
        """The checkpoint to run from, if the client names one."""
        return self.checkpoint_id or (self.checkpoint or {}).get("checkpoint_id")


_REASONS = {
    "command.update": "only an agent's own nodes write its state, by their contracts",
    "command.goto": "an outcome of a node decides which node follows, by the graph's rows",
    "command.graph": "a client cannot command a graph of an agent",
    "interrupt_before": "an agent pauses where its nodes ask a person, and nowhere else",
    "interrupt_after": "an agent pauses where its nodes ask a person, and nowhere else",
    "context": "an agent is configured by its server, not by a client",
    "webhook": "the server calls no address that a client names",
    "feedback_keys": "there is no feedback service",
    "langsmith_tracer": "the server sends nothing to LangSmith",
}
_CONFIGURABLE = frozenset({"thread_id", "run_id", "graph_id", "assistant_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"})


class ThreadBody(_Body):
    """A thread to be created."""

    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    ttl: Any = None
    supersteps: list[Any] | None = None


class ThreadPatch(_Body):
    """Metadata to be added to a thread."""

    metadata: dict[str, Any]
    ttl: Any = None


class SearchBody(_Body):
    """Which threads, or which assistants, to return."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    ids: list[str] | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    limit: int = Field(10, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=10**9)
    sort_by: str | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None
    graph_id: str | None = None
    name: str | None = None
    extract: Any = None


class HistoryBody(_Body):
    """Which states of a thread to return."""

    limit: int = Field(10, ge=1, le=1000)
    before: str | dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    checkpoint: dict[str, Any] | None = None


class CheckpointBody(_Body):
    """Which state of a thread to return."""

    checkpoint: dict[str, Any]
    subgraphs: bool | None = None


class CancelBody(_Body):
    """Which runs to cancel."""

    thread_id: str | None = None
    run_ids: list[str] | None = Field(None, max_length=1000)
    status: Literal["pending", "running", "all"] | None = None


async def read_shape(request: Request, shape: type[B]) -> B:
    """Return the JSON body of a request as a model. Raises InputSchema, which is the status that LangGraph's clients know."""
    try:
        return await read_body(request, shape)
    except RequestError as error:
        raise InputSchema(error.message) from None


def check_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return metadata that every store can hold. Raises InputTooLarge and InputEncoding."""
    given = metadata or {}
    check_size(given, max_bytes=_METADATA_BYTES)
    pending: list[Any] = [given]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            check_characters(value, max_bytes=_METADATA_BYTES)
        elif isinstance(value, dict):
            pending += [part for pair in cast("dict[str, Any]", value).items() for part in pair]
        elif isinstance(value, list):
            pending += cast("list[Any]", value)
        elif (isinstance(value, float) and value != value) or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
            raise InputEncoding("Metadata has a number that JSON does not have.")
    return given


def modes_of(given: str | list[str] | None) -> tuple[str, ...]:
    """Return the stream modes that a client asks for. Raises InputSchema for one that does not exist."""
    wanted = [given] if isinstance(given, str) else (given or [])
    modes = tuple(dict.fromkeys(mode for mode in wanted if mode)) or ("values",)
    unknown = next((mode for mode in modes if mode not in MODES), None)
    if unknown is not None:
        raise InputSchema(f"There is no stream mode '{unknown}'. There are: {', '.join(MODES)}.")
    return modes
