"""What the desk is shown with: one conversation, in which a question interrupts an order and the order is resumed."""

from __future__ import annotations

from interlock.runtime.agent import Scene

__all__ = ["SCENES"]

_TALK = "tour"

SCENES = (
    Scene(title="an order with something missing: one question", text="I want to buy a steel desk lamp dimmable", session=_TALK),
    Scene(title="support comes first, then the order is resumed", text="How do I return a product?", session=_TALK),
    Scene(title="the answer: stock and price from the catalogue", text="3", session=_TALK),
    Scene(title="a product that there is not: said, not made up", text="Do you have unicorn saddles in stock?", session=_TALK),
    Scene(title="a tool that fails: told to the specialist, who says so", text="What is 1 / 0?", session=_TALK),
    Scene(
        title="a turn that may not ask a model: nothing is saved",
        text="And a black one?",
        session=_TALK,
        error="budget_exceeded",
        settings={"max_model_calls": 0},
    ),
)
