"""Everything Interlock raises. The tree lists what this module offers.

    InterlockError
      ContractError            a graph, document or grant that breaks the rules; raised while building
      InputError               the caller's mistake; the session is as it was
        DocumentInvalid          document_invalid
        ExtraMissing             extra_missing
        InputEmpty               input_empty
        InputTooLarge            input_too_large
        InputEncoding            input_encoding
        InputSchema              input_schema
        AgentUnknown             agent_unknown
        RoleUnknown              role_unknown
        SettingsInvalid          settings_invalid
        RecordInvalid            record_invalid
        TurnCancelled            turn_cancelled
        TurnWaiting              turn_waiting
        NothingWaits             nothing_waits
        TurnUnknown              turn_unknown
        KeyReused                key_reused
        NameUnusable             name_unusable
        FolderUnusable           folder_unusable
        KeyUnknown               key_unknown
        ServerExposed            server_exposed
        AddressTaken             address_taken
      TurnError                while a turn runs; carries the turn and the node path
        ContractViolation        contract_violation
        BudgetExceeded           budget_exceeded
        NodeFailed               node_failed
        StateIncompatible        state_incompatible
        StateUnstorable          state_unstorable
        ReplayDiverged           replay_diverged
        EffectUnknown            effect_unknown
        PersonAwaited            person_awaited
        VersionUnserved          version_unserved
        TurnStopped              cancelled
        Fenced                   fenced
        Internal                 internal
        CapabilityError          capability_failed
          CapabilityResultInvalid  capability_result_invalid
          CapabilityTimeout        capability_timeout
          RateLimited              rate_limited
          ModelError               model_failed
            ModelTimeout             model_timeout
            ModelUnavailable         model_unavailable
            ModelRefused             model_refused
            ModelOutputInvalid       model_output_invalid
              ModelCutOff              model_cut_off
          StoreError               store_failed
            StoreUnavailable         store_unavailable
            StoreFull                store_full
            StoreCorrupt             store_corrupt
            StateConflict            state_conflict
            SessionBusy              session_busy
          ToolError                tool_failed
            ToolDenied               tool_denied
            ToolInputInvalid         tool_input_invalid
            UntrustedArgument        untrusted_argument
            ToolTimeout              tool_timeout
            ToolUnavailable          tool_unavailable
            QueryDenied              query_denied
            QueryTimeout             query_timeout
          MediaUnsupported         unsupported_media
          MediaMalformed           media_malformed
            MediaBomb                media_bomb

`interlock.server.request_errors` has the requests that the server refuses.

`code` is stable: branch on it, not on the message. `transient` says whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar


class InterlockError(Exception):
    """An error that Interlock raises."""

    code: ClassVar[str] = "internal"
    transient: ClassVar[bool] = False

    def __init_subclass__(cls, *, code: str | None = None, transient: bool | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.code = code or cls.code
        cls.transient = cls.transient if transient is None else transient

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)

    @property
    def message(self) -> str:
        return str(self)

    def _asdict(self) -> dict[str, str | None]:
        """Return the error as a client may see it. LangGraph's server calls this method, and hides the message of an error without it."""
        return {"error": self.code, "message": self.message, "node": getattr(self, "node", None)}


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph: where it is broken, what is wrong and how to fix it."""

    rule: str
    says: str
    fix: str
    graph: str
    node: str | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = [f"graph '{self.graph}'"] if self.graph else ["the grants"]
        if self.node is not None:
            where.append(f"node '{self.node}'")
        if self.field is not None:
            where.append(f"field '{self.field}'")
        return f"{', '.join(where)}: {self.says} Fix: {self.fix}"


class ContractError(InterlockError, code="contract_invalid"):
    """A graph breaks the rules of contracts and was not built."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InputError(InterlockError, code="input_invalid"):
    """The input cannot be used."""


class DocumentInvalid(InputError, code="document_invalid"):
    """An architecture document cannot be read."""


class InputEmpty(InputError, code="input_empty"):
    """The input is empty or blank."""


class InputTooLarge(InputError, code="input_too_large"):
    """The input is larger than the configured limit."""


class InputEncoding(InputError, code="input_encoding"):
    """The input is not valid text."""


class InputSchema(InputError, code="input_schema"):
    """The input has a field that is unknown, that callers may not set or that is of the wrong type, or it lacks a required field."""


class AgentUnknown(InputError, code="agent_unknown"):
    """No agent has that name."""


class RoleUnknown(InputError, code="role_unknown"):
    """The agent has no entry for that role."""


class SettingsInvalid(InputError, code="settings_invalid"):
    """A setting has a value that cannot be used."""


class ExtraMissing(InputError, code="extra_missing"):
    """An optional part of Interlock is needed that is not installed."""

    @property
    def command(self) -> str:
        """The command that installs it, which the message ends with."""
        return self.message.rpartition("Run: ")[2]


class RecordInvalid(InputError, code="record_invalid"):
    """The record of a turn cannot be read, or belongs to another graph."""


class TurnCancelled(InputError, code="turn_cancelled"):
    """The recorded turn was cancelled. It has ended and can be neither resumed nor replayed."""


class TurnWaiting(InputError, code="turn_waiting"):
    """The session's last turn is waiting for an answer. It has to end before a new turn can start."""


class NothingWaits(InputError, code="nothing_waits"):
    """There is no turn waiting for an answer."""


class TurnUnknown(InputError, code="turn_unknown"):
    """No turn with that id is stored."""


class KeyReused(InputError, code="key_reused"):
    """The caller's key was used before, for a turn with another input."""


class NameUnusable(InputError, code="name_unusable"):
    """The name cannot be used for an agent."""


class FolderUnusable(InputError, code="folder_unusable"):
    """A new agent cannot be created in that folder: it exists already, or cannot be written."""


class KeyUnknown(InputError, code="key_unknown"):
    """No API key has that id."""


class ServerExposed(InputError, code="server_exposed"):
    """Without API keys the server accepts connections of this machine only."""


class AddressTaken(InputError, code="address_taken"):
    """Another program listens on that address already, or it is not an address of this machine."""


# Errors that end a turn


class TurnError(InterlockError, code="turn_failed"):
    """A turn failed."""

    node: str | None = None
    turn: str | None = None

    def at(self, node: str, *, turn: str) -> TurnError:
        """Set the node path and the turn, unless the error already has the path of a node inside this one."""
        if self.turn != turn or self.node is None or not self.node.startswith(f"{node}/"):
            self.node, self.turn = node, turn
        return self


class ContractViolation(TurnError, code="contract_violation"):
    """A node did something that its contract does not allow."""


class BudgetExceeded(TurnError, code="budget_exceeded"):
    """A turn reached one of its limits."""


class NodeFailed(TurnError, code="node_failed"):
    """A node raised an exception that is not one of its outcomes."""


class Internal(TurnError, code="internal"):
    """A bug in Interlock itself."""


class StateIncompatible(TurnError, code="state_incompatible"):
    """The stored state does not match the graph."""


class StateUnstorable(TurnError, code="state_unstorable"):
    """The state holds a value that the store cannot keep."""


class ReplayDiverged(TurnError, code="replay_diverged"):
    """A replayed turn made a call that differs from its record."""


class EffectUnknown(TurnError, code="effect_unknown"):
    """A worker died while it made a call that must not be repeated: whether the call had its effect is not known."""


class PersonAwaited(TurnError, code="person_awaited"):
    """The turn is suspended until a person answers."""

    def __init__(self, message: str | None = None, *, question: object = None) -> None:
        super().__init__(message)
        self.question = question


class JournalFailed(BaseException):
    """Ends a turn whose journal cannot be written. It is not an Exception, so that a node that catches errors and retries cannot catch it.

    `reason` is the typed error that the turn ends with.
    """

    def __init__(self, reason: InterlockError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class VersionUnserved(TurnError, code="version_unserved"):
    """The contracts of the agent have changed since the turn was accepted, and no worker has the old ones."""


class TurnStopped(TurnError, code="cancelled"):
    """The turn was cancelled by someone else than its caller, who waits for its result."""


class Fenced(TurnError, code="fenced"):
    """Another worker has taken the turn over; this one may not write any more."""


# Errors of capability calls


class CapabilityError(TurnError, code="capability_failed"):
    """A capability call failed."""


class CapabilityResultInvalid(CapabilityError, code="capability_result_invalid"):
    """A capability returned something other than what its Protocol declares."""


class CapabilityTimeout(CapabilityError, code="capability_timeout", transient=True):
    """A capability call exceeded its time limit."""


class RateLimited(CapabilityError, code="rate_limited", transient=True):
    """A capability was called as often as its rate limit allows."""


@dataclass(frozen=True, kw_only=True)
class RejectedAnswer:
    """What an answer that cannot be used cost. Tokens are None where the model did not report them."""

    output_bytes: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None


class ModelError(CapabilityError, code="model_failed"):
    """The model could not be called, or returned no usable answer."""

    rejected: RejectedAnswer | None = None
    """Set where the model did answer: the answer is charged to the turn."""


class ModelTimeout(ModelError, code="model_timeout", transient=True):
    """The model did not answer in time."""


class ModelUnavailable(ModelError, code="model_unavailable", transient=True):
    """The model cannot be reached, or is failing or overloaded."""


class ModelRefused(ModelError, code="model_refused"):
    """The model's server rejected the request: the key, the model's name or the content."""


class ModelOutputInvalid(ModelError, code="model_output_invalid"):
    """The model's answer is empty, too large, or does not match the requested schema."""


class ModelCutOff(ModelOutputInvalid, code="model_cut_off"):
    """The model's answer was cut off before its end. Raise INTERLOCK_MODEL_MAX_TOKENS, or ask for a shorter answer."""


class StoreError(CapabilityError, code="store_failed"):
    """A store failed."""


class StoreUnavailable(StoreError, code="store_unavailable", transient=True):
    """A store cannot be reached or written."""


class StoreFull(StoreError, code="store_full", transient=True):
    """A store has no space left."""


class StoreCorrupt(StoreError, code="store_corrupt"):
    """A store holds data that cannot be read. The data is left unchanged."""


class StateConflict(StoreError, code="state_conflict", transient=True):
    """Another writer saved the session state first."""


class SessionBusy(StoreError, code="session_busy", transient=True):
    """Another turn holds this session and did not finish in time."""


class ToolError(CapabilityError, code="tool_failed"):
    """A tool could not be run."""


class ToolDenied(ToolError, code="tool_denied"):
    """The caller is not allowed to use that tool."""


class ToolInputInvalid(ToolError, code="tool_input_invalid"):
    """The arguments of a tool do not match its parameters."""


class UntrustedArgument(ToolError, code="untrusted_argument"):
    """A tool was called with a value from outside that its policy does not accept."""


class ToolTimeout(ToolError, code="tool_timeout", transient=True):
    """A tool exceeded its time limit."""


class ToolUnavailable(ToolError, code="tool_unavailable", transient=True):
    """A service that a tool needs cannot be reached."""


class QueryDenied(ToolError, code="query_denied"):
    """A query writes, or reads something that it may not read."""


class QueryTimeout(ToolError, code="query_timeout", transient=True):
    """A query exceeded its time limit."""


class MediaUnsupported(CapabilityError, code="unsupported_media"):
    """No configured adapter accepts this kind of media."""


class MediaMalformed(CapabilityError, code="media_malformed"):
    """The media is damaged, or is not of the declared type."""


class MediaBomb(MediaMalformed, code="media_bomb"):
    """The media is small but would unpack to more than the limit."""


def create_error(code: str, message: str, *, name: str | None = None) -> InterlockError | None:
    """Create an error from its recorded code and message; return None where no class has the code.

    Where several classes have it, `name` selects one.
    """
    classes: list[type[InterlockError]] = [TurnError, InputError]
    for one in classes:
        classes.extend(one.__subclasses__())
    known = [one for one in classes if one.code == code]
    if not known:
        return None
    found = next((one for one in known if one.__name__ == name), known[0])
    made = found.__new__(found, message)
    # Not by the class's own __init__, which may take more than a message.
    InterlockError.__init__(made, message)
    return made
