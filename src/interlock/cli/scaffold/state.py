"""The state of scaffold, and the outcomes of its nodes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from interlock import Control, Outcome, Untrusted

Topic = Literal["opening", "delivery", "returns", "other"]
Refusal = Literal["off_topic", "no_answer"]


@dataclass
class State:
    """The fields of a turn. A field has no value until an outcome writes it."""

    question: Annotated[str, Untrusted]
    topic: Annotated[Topic, Control]
    answer: Annotated[str, Untrusted]
    refusal: Annotated[Refusal, Control]
    reply: Annotated[str, Untrusted]


class Drafted(Outcome):
    """The model returned the topic and an answer."""

    topic: Topic
    answer: str


class Answerable(Outcome):
    """The answer may be returned."""


class Refused(Outcome):
    """The question is refused."""

    refusal: Refusal


class Replied(Outcome):
    """The reply is ready."""

    reply: str
