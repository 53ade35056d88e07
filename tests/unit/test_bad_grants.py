"""What is granted and is not what it is granted as is refused before the first turn, with the method's name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import Interlock, Settings
from interlock import capabilities as declared
from interlock.capabilities import Clock, Human, Message, Model, Question, Tool
from interlock.capabilities.capability import Capability, is_capability, is_stream, methods
from interlock.errors import ContractError
from interlock.runtime.targets import Composed
from interlock.testing import FixedClock
from interlock_agents.sam.capabilities import ModelBackend
from interlock_agents.sam.testing import ScriptedBackend

CAPABILITIES: list[type] = [one for one in vars(declared).values() if is_capability(one)]


def refusal(granted: Any) -> str:
    with pytest.raises(ContractError) as refused:
        Interlock(Settings(), grants=granted)
    assert {problem.rule for problem in refused.value.problems} == {"bad_grant"}
    return str(refused.value)


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda one: one.__name__)
@pytest.mark.parametrize("adapter", [5, None, "text", object()], ids=["number", "none", "text", "object"])
def test_what_has_none_of_the_methods_is_refused_for_every_capability(capability: type, adapter: object):
    told = refusal({capability: adapter})
    assert all(f"'{name}'" in told for name in methods(capability))


class Ledger(Capability, Protocol):
    async def pay(self, amount: int) -> None: ...

    async def refund(self, amount: int) -> None:
        """Give money back."""

    async def pay_twice(self, amount: int) -> None:
        """Pay two times, in every ledger."""
        await self.pay(amount)
        await self.pay(amount)


class Misspelt(Ledger):
    async def payy(self, amount: int) -> None:
        del amount


class Complete(Ledger):
    async def pay(self, amount: int) -> None:
        del amount

    async def refund(self, amount: int) -> None:
        del amount


def test_an_empty_method_that_is_inherited_from_the_capability_is_a_missing_one():
    told = refusal({Ledger: cast("Any", Misspelt)()})
    assert "no async method 'pay' of its own" in told
    assert "no async method 'refund' of its own" in told
    assert "pay_twice" not in told
    Interlock(Settings(), grants={Ledger: Complete()})


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda one: one.__name__)
def test_methods_that_are_not_async_are_named_for_every_capability(capability: type):
    blocking = type("Blocking", (), dict.fromkeys(methods(capability), print))
    told = refusal({capability: blocking()})
    assert all(f"its '{name}' is no async" in told for name in methods(capability))


def made(name: str, method: Any) -> Any:
    """Make an async method of the same kind whose parameters are the declared ones and one more."""
    parameters = ", ".join([*inspect.signature(method).parameters, "surplus"]) if is_stream(method) else "self, *, surplus"
    body = "yield" if is_stream(method) else "pass"
    scope: dict[str, Any] = {}
    exec(f"async def {name}({parameters}):\n    {body}", scope)  # noqa: S102 - signatures that nobody writes by hand
    return scope[name]


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda one: one.__name__)
def test_methods_with_other_parameters_are_named_for_every_capability(capability: type):
    other = type("Other", (), {name: made(name, method) for name, method in methods(capability).items()})
    told = refusal({capability: other()})
    assert all(f"its '{name}' cannot be called as '{name}(" in told for name in methods(capability))


def test_the_model_that_sam_never_sees_itself_is_checked_too():
    assert "'int' is granted as 'Model' but has no async method 'reply'" in refusal({Model: 5})


def test_a_class_in_the_place_of_an_instance_is_refused():
    assert "pass FixedClock(...)" in refusal({Clock: FixedClock})


@pytest.mark.parametrize("key", [int, Capability, FixedClock])
def test_what_is_no_capability_cannot_be_granted(key: Any):
    assert "is no capability" in refusal({key: FixedClock()})


class Teller(Capability, Protocol):
    async def tell(self, text: str) -> str: ...


class Telling:
    async def tell(self, text: str, *, model: Model) -> str:
        return f"{text} {model}"


def test_a_part_of_an_adapter_is_checked_as_well():
    assert "'int' is granted as 'Model'" in refusal({Teller: Composed(Telling(), parts={Model: 5})})


class Lenient:
    """Takes more than is declared, by defaults of its own."""

    async def ask(self, question: Question, *more: Any, urgent: bool = False, **others: Any) -> str | None:
        del question, more, urgent, others
        return None


async def test_an_adapter_may_take_more_than_is_declared(tmp_path: Path):
    app = Interlock(Settings(data_dir=tmp_path), grants={Human: Lenient()})
    assert (await app.run("sam", "Good morning")).status == "success"


class Positional:
    """Has all methods of a Model; `reply` lacks one of the parameters that are passed by name."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> Any:
        del messages, tools

    stream, decide = ScriptedBackend.stream, ScriptedBackend.decide


def test_a_parameter_that_is_passed_by_name_may_not_be_missing():
    assert "unexpected keyword argument 'schema'" in refusal({Model: Positional()})


@given(st.sampled_from(CAPABILITIES), st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()), st.just(print)))
def test_no_value_is_taken_for_an_adapter(capability: type, adapter: object):
    refusal({capability: adapter})


def test_a_backend_that_is_one_is_taken():
    backend = cast("Any", type("Backend", (), {"generate": Telling.tell}))()
    assert "'generate' cannot be called" in refusal({ModelBackend: backend})
