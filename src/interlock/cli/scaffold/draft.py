"""The schema of the model's reply: a topic from a closed list, and a text."""

from typing import TypeVar

from pydantic import BaseModel, Field

from .state import Topic

Shape = TypeVar("Shape", bound=BaseModel)


class Draft(BaseModel):
    """The topic of a question, and its answer."""

    topic: Topic = Field(description="The topic of the question.")
    answer: str = Field(description="The answer; empty if the facts have none.")
