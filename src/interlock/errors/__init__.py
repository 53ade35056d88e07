"""Everything Interlock raises.

    InterlockError
      ContractError            a graph, document or grant that breaks the rules; raised while building
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
        StateUnstorable          state_unstorable
        ReplayDiverged           replay_diverged
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

from interlock.errors.base import (
    AgentUnknown,
    ContractError,
    DocumentInvalid,
    FolderUnusable,
    InputEmpty,
    InputEncoding,
    InputError,
    InputSchema,
    InputTooLarge,
    InterlockError,
    NameUnusable,
    NothingWaits,
    Problem,
    RecordInvalid,
    RoleUnknown,
    SettingsInvalid,
    TurnCancelled,
    TurnWaiting,
)
from interlock.errors.capabilities import (
    ApprovalNeeded,
    CapabilityError,
    CapabilityResultInvalid,
    CapabilityTimeout,
    MatchAmbiguous,
    MediaBomb,
    MediaMalformed,
    MediaUnsupported,
    ModelCutOff,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelTimeout,
    ModelUnavailable,
    NodeHasEdges,
    NotInGraph,
    PathDenied,
    QueryDenied,
    QueryTimeout,
    RateLimited,
    SecretUnavailable,
    SessionBusy,
    StateConflict,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    ToolDenied,
    ToolError,
    ToolInputInvalid,
    ToolTimeout,
    ToolUnavailable,
)
from interlock.errors.turns import (
    BudgetExceeded,
    ContractViolation,
    Fenced,
    Internal,
    JournalFailed,
    NodeFailed,
    PersonAwaited,
    ReplayDiverged,
    StateIncompatible,
    StateUnstorable,
    TurnError,
)

__all__ = [
    "AgentUnknown",
    "ApprovalNeeded",
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
