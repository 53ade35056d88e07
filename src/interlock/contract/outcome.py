"""An outcome is what happened in a node: a frozen record of the state fields that it writes."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import Any, dataclass_transform

__all__ = ["Outcome"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Outcome:
    """Subclass it with one annotated attribute for each state field that this outcome writes.

    Returning an outcome is the only way to write state, and its type alone chooses the next node.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        made: Any = dataclass(frozen=True, kw_only=True, init=False)(cls)
        made.__init__ = _initialiser(made)


def _initialiser(outcome: type[Any]) -> Any:
    """Write __init__ so that it fills the instance's dict.

    A frozen dataclass's own goes through object.__setattr__ for every field, which takes four times as long, and every
    step of every turn makes an outcome.
    """
    namespace: dict[str, Any] = {"MISSING": MISSING}
    parameters: list[str] = []
    body: list[str] = ["attributes = self.__dict__"]
    for one in fields(outcome):
        name, default = one.name, f"_default_{one.name}"
        value = name
        if one.default is not MISSING:
            namespace[default] = one.default
            parameters.append(f"{name}={default}")
        elif one.default_factory is not MISSING:
            namespace[default] = one.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"{default}() if {name} is MISSING else {name}"
        else:
            parameters.append(name)
        body.append(f"attributes[{name!r}] = {value}")
    if hasattr(outcome, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    exec(f"def __init__({signature}):\n    " + "\n    ".join(body), namespace)  # noqa: S102 - our own text
    made = namespace["__init__"]
    made.__qualname__ = f"{outcome.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in fields(outcome)} | {"return": None}
    return made
