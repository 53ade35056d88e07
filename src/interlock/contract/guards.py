"""Guards: named functions with a closed result, through which text may decide.

A guard is the one place where code may look at text and say one of finitely many things about it. The document lists every guard, and
its source is part of an agent's certificate: `interlock verify` trusts a guard and reads everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["guard", "is_guard"]

F = TypeVar("F", bound=Callable[..., Any])


def guard(function: F) -> F:
    """Mark a function as a guard. It is synchronous and annotated, and its result is a Literal, a bool, None or an enum."""
    function.__dict__["interlock_guard"] = True
    return function


def is_guard(function: object) -> bool:
    """Return whether a function is marked as a guard."""
    return getattr(function, "__dict__", {}).get("interlock_guard") is True
