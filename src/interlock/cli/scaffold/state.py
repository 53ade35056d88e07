"""What scaffold knows during a turn, and what can have happened in its nodes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from interlock import Control, Outcome, Untrusted

Topic = Literal["opening", "delivery", "returns", "other"]
Refusal = Literal["off_topic", "no_answer"]


@dataclass
class State:
    """One question. A field has no value until an outcome writes it."""

    question: Annotated[str, Untrusted]
    topic: Annotated[Topic, Control]
    answer: Annotated[str, Untrusted]
    refusal: Annotated[Refusal, Control]
    reply: Annotated[str, Untrusted]


class Drafted(Outcome):
    """The model has said what the question is about, and an answer."""

    topic: Topic
    answer: str


class Answerable(Outcome):
    """The answer may be given."""


class Refused(Outcome):
    """There will be no answer."""

    refusal: Refusal


class Replied(Outcome):
    """There is a reply."""

    reply: str
