"""Everything Interlock raises.

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

# The modules list what they export; `tests/unit/test_public_api.py` compares these lists with the tree above.
from interlock.errors import base, capabilities, turns
from interlock.errors.base import *  # noqa: F403
from interlock.errors.capabilities import *  # noqa: F403
from interlock.errors.turns import *  # noqa: F403

__all__: list[str] = []
__all__ += base.__all__
__all__ += capabilities.__all__
__all__ += turns.__all__
