"""Everything Interlock raises.

    InterlockError
      ContractError            a graph, document or wiring that breaks the rules; raised while building
      InputError               the caller's mistake; the session is as it was
        DocumentInvalid          document_invalid
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
        NameUnusable             name_unusable
        FolderUnusable           folder_unusable
      TurnError                while a turn runs; carries the turn and the node path
        ContractViolation        contract_violation
        BudgetExceeded           budget_exceeded
        NodeFailed               node_failed
        StateIncompatible        state_incompatible
        StateInvalid             state_invalid
        StateUnstorable          state_unstorable
        ReplayDiverged           replay_diverged
        BridgeAccessError        bridge_denied
        PersonAwaited            person_awaited
        Fenced                   fenced
        Internal                 internal
        CapabilityError          capability_failed
          CapabilityResultInvalid  capability_result_invalid
          CapabilityTimeout        capability_timeout
          RateLimited              rate_limited
          SecretUnavailable        secret_unavailable
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
            ToolTimeout              tool_timeout
            ToolUnavailable          tool_unavailable
            PathDenied               path_denied
            QueryDenied              query_denied
            QueryTimeout             query_timeout
            NotInGraph               not_in_graph
            NodeHasEdges             node_has_edges
            MatchAmbiguous           match_ambiguous
            ApprovalNeeded           approval_needed
          MediaUnsupported         unsupported_media
          MediaMalformed           media_malformed
            MediaBomb                media_bomb

`code` is stable: branch on it, not on the message. `transient` says whether the same call may succeed later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AgentUnknown",
    "ApprovalNeeded",
    "BridgeAccessError",
    "BudgetExceeded",
    "CapabilityError",
    "CapabilityResultInvalid",
    "CapabilityTimeout",
    "ContractError",
    "ContractViolation",
    "DocumentInvalid",
    "Fenced",
    "FolderUnusable",
    "InputEmpty",
    "InputEncoding",
    "InputError",
    "InputSchema",
    "InputTooLarge",
    "InterlockError",
    "Internal",
    "JournalFailed",
    "MatchAmbiguous",
    "MediaBomb",
    "MediaMalformed",
    "MediaUnsupported",
    "ModelCutOff",
    "ModelError",
    "ModelOutputInvalid",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnavailable",
    "NameUnusable",
    "NodeFailed",
    "NodeHasEdges",
    "NotInGraph",
    "NothingWaits",
    "PathDenied",
    "PersonAwaited",
    "Problem",
    "QueryDenied",
    "QueryTimeout",
    "RateLimited",
    "RecordInvalid",
    "ReplayDiverged",
    "RoleUnknown",
    "SecretUnavailable",
    "SessionBusy",
    "SettingsInvalid",
    "StateConflict",
    "StateIncompatible",
    "StateInvalid",
    "StateUnstorable",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "ToolDenied",
    "ToolError",
    "ToolInputInvalid",
    "ToolTimeout",
    "ToolUnavailable",
    "TurnCancelled",
    "TurnError",
    "TurnWaiting",
]


class InterlockError(Exception):
    """Something went wrong in Interlock."""

    code: ClassVar[str] = "internal"
    transient: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)

    @property
    def message(self) -> str:
        return str(self)

    def _asdict(self) -> dict[str, str | None]:
        """Return what a client may know of the error. LangGraph's server looks for this method, and hides all other messages."""
        return {"error": self.code, "message": self.message, "node": getattr(self, "node", None)}


@dataclass(frozen=True)
class Problem:
    """One broken rule of a graph: where it is, what is wrong, what to change."""

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


class ContractError(InterlockError):
    """A graph breaks the rules of contracts and was not built."""

    code = "contract_invalid"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InputError(InterlockError):
    """The input cannot be taken."""

    code = "input_invalid"


class DocumentInvalid(InputError):
    """An architecture document cannot be read."""

    code = "document_invalid"


class InputEmpty(InputError):
    """The input is empty or blank."""

    code = "input_empty"


class InputTooLarge(InputError):
    """The input is larger than the configured cap."""

    code = "input_too_large"


class InputEncoding(InputError):
    """The input is not valid text."""

    code = "input_encoding"


class InputSchema(InputError):
    """The input has a field that is unknown, closed to callers, or of the wrong type, or lacks one that is needed."""

    code = "input_schema"


class AgentUnknown(InputError):
    """There is no agent of that name."""

    code = "agent_unknown"


class RoleUnknown(InputError):
    """The agent has no entry for that role."""

    code = "role_unknown"


class SettingsInvalid(InputError):
    """A setting has a value that cannot be used."""

    code = "settings_invalid"


class RecordInvalid(InputError):
    """A record of a turn cannot be read, or is of another graph."""

    code = "record_invalid"


class TurnCancelled(InputError):
    """The turn of a record was cancelled: it has ended, and is neither resumed nor replayed."""

    code = "turn_cancelled"


class TurnWaiting(InputError):
    """The session's last turn waits for an answer, and a new one cannot begin before it has ended."""

    code = "turn_waiting"


class NothingWaits(InputError):
    """There is an answer, and no turn that waits for one."""

    code = "nothing_waits"


class NameUnusable(InputError):
    """An agent cannot have that name."""

    code = "name_unusable"


class FolderUnusable(InputError):
    """A new agent cannot be put there: the place is taken, or cannot be written."""

    code = "folder_unusable"


class TurnError(InterlockError):
    """A turn could not go on."""

    code = "turn_failed"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.node: str | None = None
        self.turn: str | None = None

    def at(self, node: str, *, turn: str) -> TurnError:
        """Say where it happened: in a node, named with those that it is inside, unless that is known to be further inside."""
        if self.turn != turn or self.node is None or not self.node.startswith(f"{node}/"):
            self.node, self.turn = node, turn
        return self


class ContractViolation(TurnError):
    """A node did what its contract does not allow."""

    code = "contract_violation"


class BudgetExceeded(TurnError):
    """A turn used up one of its budgets."""

    code = "budget_exceeded"


class NodeFailed(TurnError):
    """A node raised an exception that is not one of its outcomes."""

    code = "node_failed"


class Internal(TurnError):
    """A mistake in Interlock itself."""

    code = "internal"


class StateIncompatible(TurnError):
    """The stored state does not fit the graph."""

    code = "state_incompatible"


class StateInvalid(TurnError):
    """The state breaks a rule of its own."""

    code = "state_invalid"


class StateUnstorable(TurnError):
    """The state holds something that the store cannot keep."""

    code = "state_unstorable"


class ReplayDiverged(TurnError):
    """A turn that is run again does something that the record does not have."""

    code = "replay_diverged"


class BridgeAccessError(TurnError, PermissionError):
    """Only what the supervisor sends crosses the bridge."""

    code = "bridge_denied"


class PersonAwaited(TurnError):
    """The turn waits for a person's answer, and goes on with it."""

    code = "person_awaited"

    def __init__(self, message: str | None = None, *, question: object = None) -> None:
        super().__init__(message)
        self.question = question


class JournalFailed(BaseException):
    """Ends a turn. It is not an Exception, so that a node which catches errors and retries does not catch this.

    `reason` is the typed error that the turn ends with.
    """

    def __init__(self, reason: InterlockError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Fenced(TurnError):
    """Another worker has taken the turn over; this one may not write any more."""

    code = "fenced"


class CapabilityError(TurnError):
    """A capability call failed."""

    code = "capability_failed"


class CapabilityResultInvalid(CapabilityError):
    """A capability returned something other than what its Protocol declares."""

    code = "capability_result_invalid"


class CapabilityTimeout(CapabilityError):
    """A capability call took longer than it may."""

    code = "capability_timeout"
    transient = True


class RateLimited(CapabilityError):
    """A capability was called as often as its rate limit allows."""

    code = "rate_limited"
    transient = True


class SecretUnavailable(CapabilityError):
    """A secret that is needed is not there."""

    code = "secret_unavailable"


class ModelError(CapabilityError):
    """The model could not be asked, or gave no usable answer."""

    code = "model_failed"


class ModelTimeout(ModelError):
    """The model did not answer in time."""

    code = "model_timeout"
    transient = True


class ModelUnavailable(ModelError):
    """The model cannot be reached, or is failing or overloaded."""

    code = "model_unavailable"
    transient = True


class ModelRefused(ModelError):
    """The model's server does not take the request: the key, the name of the model, or what is asked."""

    code = "model_refused"


class ModelOutputInvalid(ModelError):
    """The model's answer is empty, too large, or not of the shape that was asked for."""

    code = "model_output_invalid"


class ModelCutOff(ModelOutputInvalid):
    """The model's answer was cut off before its end. Raise INTERLOCK_MODEL_MAX_TOKENS, or ask for a shorter answer."""

    code = "model_cut_off"


class StoreError(CapabilityError):
    """A store failed."""

    code = "store_failed"


class StoreUnavailable(StoreError):
    """A store cannot be reached or written."""

    code = "store_unavailable"
    transient = True


class StoreFull(StoreError):
    """A store has no room left."""

    code = "store_full"
    transient = True


class StoreCorrupt(StoreError):
    """A store holds something that cannot be read; it is left as it is."""

    code = "store_corrupt"


class StateConflict(StoreError):
    """Somebody else saved the state in the meantime."""

    code = "state_conflict"
    transient = True


class SessionBusy(StoreError):
    """Somebody else takes a turn of the session, and does not end."""

    code = "session_busy"
    transient = True


class ToolError(CapabilityError):
    """A tool could not be run."""

    code = "tool_failed"


class ToolDenied(ToolError):
    """A tool is not on the list of whoever asked for it."""

    code = "tool_denied"


class ToolInputInvalid(ToolError):
    """The arguments of a tool are not what it takes."""

    code = "tool_input_invalid"


class ToolTimeout(ToolError):
    """A tool took longer than it may."""

    code = "tool_timeout"
    transient = True


class ToolUnavailable(ToolError):
    """What a tool needs cannot be reached now."""

    code = "tool_unavailable"
    transient = True


class PathDenied(ToolError):
    """A path leads out of the scope, or to what is no plain file or folder in it."""

    code = "path_denied"


class QueryDenied(ToolError):
    """A query is not one that only reads, or asks for what it may not."""

    code = "query_denied"


class QueryTimeout(ToolError):
    """A query took longer than it may."""

    code = "query_timeout"
    transient = True


class NotInGraph(ToolError):
    """A node or an edge that is named is not in the graph."""

    code = "not_in_graph"


class NodeHasEdges(ToolError):
    """A node that still has edges is not deleted without them."""

    code = "node_has_edges"


class MatchAmbiguous(ToolError):
    """What is named could be one of several nodes."""

    code = "match_ambiguous"

    def __init__(self, message: str | None = None, *, named: str = "", candidates: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.named = named
        self.candidates = tuple(candidates)


class ApprovalNeeded(ToolError):
    """A person has to approve this before it is run."""

    code = "approval_needed"


class MediaUnsupported(CapabilityError):
    """No configured adapter can take this kind of media."""

    code = "unsupported_media"


class MediaMalformed(CapabilityError):
    """The media is damaged or is not what it is declared to be."""

    code = "media_malformed"


class MediaBomb(MediaMalformed):
    """The media is small, but what it would unpack to is not."""

    code = "media_bomb"
