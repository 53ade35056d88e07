"""The base class, errors of building a graph, and errors of the caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AgentUnknown",
    "ContractError",
    "DocumentInvalid",
    "ExtraMissing",
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


class NameUnusable(InputError, code="name_unusable"):
    """The name cannot be used for an agent."""


class FolderUnusable(InputError, code="folder_unusable"):
    """A new agent cannot be created in that folder: it exists already, or cannot be written."""
