"""Everyday inputs with the judged answer: what people type first, as data in `tests/agents/everyday/AGENT.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

FOLDER = Path(__file__).parent.parent / "agents" / "everyday"

Kind = Literal["answer", "question", "not_understood", "not_found", "refusal", "small_talk"]


class Everyday(BaseModel):
    """One input and what a person who knows the right answer accepts as a reply.

    `before` are earlier inputs of the same session. `has` must all occur in the reply (each line may give alternatives
    separated by "|"), `lacks` must not. Both ignore case. `sql` is an independent query on the agent's demo data, whose
    result says which values the reply must have; the agent's own test runs it.
    `reply` is the whole reply. `start` names what is there before the first input, which the agent's own test makes.
    `added` and `removed` are what the input has to change; where both are empty it changes nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    kind: Kind
    before: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    role: str | None = None
    sql: str | None = None
    reply: str | None = None
    start: str | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def faults(self, reply: str) -> list[str]:
        """Say what is wrong with the words of a reply; the kind is for the agent's own test to check."""
        said = reply.casefold()
        wrong = [] if self.reply in {None, reply} else [f"is not {self.reply!r}"]
        missing = [f"lacks {wanted!r}" for wanted in self.has if not any(part.casefold() in said for part in wanted.split("|"))]
        return wrong + missing + [f"has {unwanted!r}" for unwanted in self.lacks if unwanted.casefold() in said]


def everyday(agent: str) -> list[Everyday]:
    """Read the corpus of an agent."""
    read = tomllib.loads((FOLDER / f"{agent}.toml").read_text(encoding="utf-8"))
    return [Everyday.model_validate(entry) for entry in read["input"]]
