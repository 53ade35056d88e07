"""What the model is asked for: one word of a closed list, and some text."""

from typing import TypeVar

from pydantic import BaseModel, Field

from .state import Topic

Shape = TypeVar("Shape", bound=BaseModel)


class Draft(BaseModel):
    """An answer, and what the question is about."""

    topic: Topic = Field(description="What the question is about.")
    answer: str = Field(description="The answer; empty where the facts have none.")
