"""The base class, errors of building a graph, and errors of the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AgentUnknown",
    "ContractError",
    "DocumentInvalid",
    "FolderUnusable",
    "InputEmpty",
    "InputEncoding",
    "InputError",
    "InputSchema",
    "InputTooLarge",
    "InterlockError",
    "NameUnusable",
    "NothingWaits",
    "Problem",
    "RecordInvalid",
    "RoleUnknown",
    "SettingsInvalid",
    "TurnCancelled",
    "TurnWaiting",
]


class InterlockError(Exception):
    """An error that Interlock raises."""

    code: ClassVar[str] = "internal"
    transient: ClassVar[bool] = False

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


class ContractError(InterlockError):
    """A graph breaks the rules of contracts and was not built."""

    code = "contract_invalid"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InputError(InterlockError):
    """The input cannot be used."""

    code = "input_invalid"


class DocumentInvalid(InputError):
    """An architecture document cannot be read."""

    code = "document_invalid"


class InputEmpty(InputError):
    """The input is empty or blank."""

    code = "input_empty"


class InputTooLarge(InputError):
    """The input is larger than the configured limit."""

    code = "input_too_large"


class InputEncoding(InputError):
    """The input is not valid text."""

    code = "input_encoding"


class InputSchema(InputError):
    """The input has a field that is unknown, that callers may not set or that is of the wrong type, or it lacks a required field."""

    code = "input_schema"


class AgentUnknown(InputError):
    """No agent has that name."""

    code = "agent_unknown"


class RoleUnknown(InputError):
    """The agent has no entry for that role."""

    code = "role_unknown"


class SettingsInvalid(InputError):
    """A setting has a value that cannot be used."""

    code = "settings_invalid"


class RecordInvalid(InputError):
    """The record of a turn cannot be read, or belongs to another graph."""

    code = "record_invalid"


class TurnCancelled(InputError):
    """The recorded turn was cancelled. It has ended and can be neither resumed nor replayed."""

    code = "turn_cancelled"


class TurnWaiting(InputError):
    """The session's last turn is waiting for an answer. It has to end before a new turn can start."""

    code = "turn_waiting"


class NothingWaits(InputError):
    """There is no turn waiting for an answer."""

    code = "nothing_waits"


class NameUnusable(InputError):
    """The name cannot be used for an agent."""

    code = "name_unusable"


class FolderUnusable(InputError):
    """A new agent cannot be created in that folder: it exists already, or cannot be written."""

    code = "folder_unusable"
