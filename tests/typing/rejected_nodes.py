# Lines of nodes that a type checker must reject, each marked with the rule that rejects it.
from __future__ import annotations

from typing import Literal, Protocol

from interlock import Capability, Outcome, Present
from interlock.capabilities import Ids
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest


class Sorted(Outcome):
    kind: Literal["bug", "wish"]
    size: int


class Unclear(Outcome):
    pass


class Search(Capability, Protocol):
    async def find(self, words: str) -> list[str]: ...


# A node reads a field that it did not declare.
async def reads_undeclared(text: str) -> Sorted:
    return Sorted(kind="bug", size=secret)  # error: reportUndefinedVariable, reportUnknownArgumentType


# A node asks for a capability that it was not granted.
async def uses_ungranted(text: str, *, search: Search) -> Unclear:
    await model.generate(ModelRequest(prompt=text))  # error: reportUndefinedVariable, reportUnknownMemberType
    return Unclear()


# A node reads a value of which it may know only whether it is there.
async def reads_present(text: Present) -> Sorted:
    return Sorted(kind="bug", size=len(text))  # error: reportArgumentType


# A node reads a field that may be empty as if it were not.
async def reads_optional(text: str | None) -> Sorted:
    return Sorted(kind="bug", size=len(text))  # error: reportArgumentType


# An outcome is made with what the state does not have.
async def writes_wrong_type(text: str) -> Sorted:
    return Sorted(kind="bug", size=text)  # error: reportArgumentType


async def writes_outside_literal(text: str) -> Sorted:
    return Sorted(kind="question", size=1)  # error: reportArgumentType


async def writes_any_text(text: str) -> Sorted:
    return Sorted(kind=text, size=1)  # error: reportArgumentType


async def writes_unknown_field(text: str) -> Sorted:
    return Sorted(kind="bug", size=1, colour="red")  # error: reportCallIssue


async def leaves_out_a_field(text: str) -> Sorted:
    return Sorted(kind="bug")  # error: reportCallIssue


async def writes_by_position(text: str) -> Sorted:
    return Sorted("bug", 1)  # error: reportCallIssue


# An outcome is changed after it was made.
async def changes_outcome(text: str) -> Sorted:
    outcome = Sorted(kind="bug", size=1)
    outcome.size = 2  # error: reportAttributeAccessIssue
    outcome.colour = "red"  # error: reportAttributeAccessIssue
    return outcome


# A node returns what it did not declare.
async def returns_undeclared(text: str) -> Sorted:
    return Unclear()  # error: reportReturnType


async def returns_nothing(text: str) -> Sorted | Unclear:  # error: reportReturnType
    pass


async def returns_a_dict(text: str) -> Sorted:
    return {"kind": "bug", "size": 1}  # error: reportReturnType


# A capability is used as what it is not.
async def calls_unknown_method(text: str, *, search: Search) -> Unclear:
    await search.burn(text)  # error: reportAttributeAccessIssue, reportUnknownMemberType
    return Unclear()


async def calls_with_wrong_type(text: str, *, search: Search) -> Unclear:
    await search.find(5)  # error: reportArgumentType
    return Unclear()


async def calls_with_unknown_argument(text: str, *, model: ModelBackend) -> Unclear:
    await model.generate(ModelRequest(prompt=text), temperature=0)  # error: reportCallIssue
    return Unclear()


async def forgets_to_wait(text: str, *, ids: Ids) -> Sorted:
    return Sorted(kind="bug", size=len(ids.new()))  # error: reportArgumentType


# Something is granted that lacks the methods.
class NoSearch:
    async def look(self, words: str) -> list[str]:
        return [words]


granted: Search = NoSearch()  # error: reportAssignmentType
