"""Where the values of a turn come from: from the user and from models that have read nothing else, or from outside.

A turn is *clean* until a call returns something from outside: the result or the error of a tool, a store or another service. What a
model says in a clean turn follows from the user's input and the prompts. What it says later may be what a text from outside asks for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from interlock.capabilities.human import Human, Question
from interlock.capabilities.tools import APPROVE
from interlock.runtime.layers import Layer
from interlock.secrets import fields_of

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["Origins", "TrackOrigins", "leaves"]

_DEEPEST = 64
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_JOINS = r"-.,:/@+_"  # between word characters these join words: an address, a date, a number


def leaves(value: Any, depth: int = _DEEPEST) -> Iterator[str]:
    """Return the texts and numbers inside a value, as texts. True, False and None are choices, not texts."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str | int | float):
        yield _normal(value)
    elif not depth:
        yield _normal(repr(value))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in cast("list[Any]", value):
            yield from leaves(item, depth - 1)
    else:
        fields: Mapping[Any, Any] | None = cast("Mapping[Any, Any]", value) if isinstance(value, Mapping) else fields_of(value)
        if fields is None:
            yield _normal(str(cast("Any", value)))
            return
        for name, item in fields.items():
            if isinstance(value, Mapping):
                yield from leaves(name, depth - 1)
            yield from leaves(item, depth - 1)


def _normal(value: str | float) -> str:
    """Return a text without differences that do not matter: 5.0 is 5, and white space is one blank."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _SPACE.sub(" ", str(value)).strip()


class Origins:
    """What is known of the values of one turn."""

    def __init__(self, given: Mapping[str, Any], *, is_clean: bool = True) -> None:
        self.is_clean = is_clean
        """Whether nothing from outside was read so far."""
        self._said = list(leaves(given))
        self._decided: set[str] = set()
        self._approved = Counter[str]()

    def is_trusted(self, value: Any) -> bool:
        """Return whether every text and number in a value is in the user's own words, or was decided in a clean turn."""
        return self.is_clean or all(map(self._is_trusted, leaves(value)))

    def is_decided(self, name: str) -> bool:
        """Return whether a model has named a tool before anything from outside was read."""
        return self.is_clean or name in self._decided

    def take_approval(self, question: str) -> bool:
        """Return whether a person has approved what a question asks. The approval is used up."""
        if not self._approved[question]:
            return False
        self._approved[question] -= 1
        return True

    def add_trusted(self, value: Any) -> None:
        """Add what a person answered."""
        self._said.extend(leaves(value))

    def add_decided(self, value: Any) -> None:
        """Add what a model said in a clean turn."""
        self._decided.update(leaves(value))

    def add_answer(self, question: Question, answer: str | None) -> None:
        """Add the answer of a person to a question."""
        self.add_trusted(answer)
        if answer is not None and question.choice(answer) == APPROVE:
            self._approved[question.text] += 1

    def _is_trusted(self, leaf: str) -> bool:
        if not leaf or leaf in self._decided:
            return True
        return any(_contains(said, leaf) or (_NUMBER.fullmatch(leaf) and _has_number(said, float(leaf))) for said in self._said)


def _contains(said: str, leaf: str) -> bool:
    """Return whether a text contains another one as whole words, not as a part of an address, a date or a number."""
    return re.search(rf"(?<!\w)(?<!\w[{_JOINS}]){re.escape(leaf)}(?!\w)(?![{_JOINS}]\w)", said, re.IGNORECASE) is not None


def _has_number(said: str, number: float) -> bool:
    """Return whether a text has a number, however it is written: 12.00 is 12."""
    return any(float(found[0]) == number for found in _NUMBER.finditer(said) if _contains(said, found[0]))


class TrackOrigins(Layer):
    """Notes where the results of calls come from. Outside the journal, so that a resumed turn knows the same."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        # The calls inside a graph or a composed adapter are tracked, not their own.
        return turn.origins and target.is_journaled

    @override
    def start(self, call: Call) -> None:
        call.is_clean = _origins(call).is_clean

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        origins, method = _origins(call), call.target.method
        if method.capability_type is Human:
            question = next(iter(method.arguments(call.args, call.kwargs).values()))
            origins.add_answer(question, chunk)
        elif method.asks_model:
            # What was asked before something from outside was read does not depend on it, however late the answer comes.
            # Of a stream only the tool calls: single words of a text are not what it says.
            if call.is_clean:
                origins.add_decided(getattr(chunk, "calls", ()) if method.is_stream else chunk)
        elif not method.returns_trusted and next(leaves(chunk), None) is not None:
            origins.is_clean = False
        return chunk

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        method = call.target.method
        if not (method.asks_model or method.returns_trusted or method.capability_type is Human):
            # The message of an error is text from outside, too.
            _origins(call).is_clean = False
        return error


def _origins(call: Call) -> Origins:
    return cast("Origins", call.node.turn.origins)
