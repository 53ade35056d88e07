"""The nodes of the gateway as plain functions, and what its two graphs are made of."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.contract.labels import Secret
from interlock.errors import TurnError
from interlock_agents.gateway import agent
from interlock_agents.gateway.errors import BridgeAccessError
from interlock_agents.gateway.graph import admin_graph, user_graph
from interlock_agents.gateway.nodes import bridge, customer, customer_from_bridge, supervisor
from interlock_agents.gateway.roles import Route
from interlock_agents.gateway.seals import is_sealed, seal
from interlock_agents.gateway.state import Answered, Crossed, Forwarded, Responded, Returned

TEXT = "What do the docs say?"


@dataclass
class Sorted:
    """A classifier that has made up its mind."""

    route: Route
    asked: list[str] = field(default_factory=list[str])

    async def classify(self, text: str) -> Route:
        self.asked.append(text)
        return self.route


@dataclass
class Kept:
    """A vault."""

    name: str = ""
    fetched: list[str] = field(default_factory=list[str])

    async def reference(self) -> str:
        return self.name

    async def fetch(self, reference: str) -> str:
        self.fetched.append(reference)
        return f"secret of {reference}"


@dataclass
class Worked:
    """A worker, or the side that one is on."""

    tasks: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def work(self, task: str, secret: str = "") -> str:
        self.tasks.append((task, secret))
        return "done"

    async def answer(self, bridge_input: str) -> str:
        self.tasks.append((bridge_input, ""))
        return "answered"


async def test_the_supervisor_passes_the_secret_to_its_worker():
    worker, vault = Worked(), Kept("key")
    answered = await supervisor("ls /admin now", classifier=Sorted("respond_admin"), worker=worker, vault=vault)
    assert answered == Answered(
        supervisor_response="done",
        secret_key_ref="key",  # noqa: S106 - the name of one
        secret_context="secret 'key', for the files of the admin worker",  # noqa: S106 - the words about one
    )
    assert (worker.tasks, vault.fetched) == ([("ls / now", "secret of key")], ["key"])
    assert (answered.origin, answered.route) == ("supervisor", "respond_admin")


async def test_without_a_secret_the_vault_is_not_opened():
    worker, vault = Worked(), Kept()
    answered = await supervisor("Hello.", classifier=Sorted("respond_admin"), worker=worker, vault=vault)
    assert answered == Answered(supervisor_response="done", secret_key_ref="", secret_context="")
    assert (worker.tasks, vault.fetched) == ([("Hello.", "")], [])


async def test_a_text_for_customers_is_sealed_and_no_secret_fetched():
    worker, vault = Worked(), Kept("key")
    forwarded = await supervisor(TEXT, classifier=Sorted("route_bridge"), worker=worker, vault=vault)
    assert isinstance(forwarded, Forwarded)
    assert (forwarded.origin, forwarded.route, worker.tasks, vault.fetched) == ("supervisor", "route_bridge", [], [])
    crossed = await bridge(forwarded.origin, forwarded.origin_seal, TEXT)
    assert crossed == Crossed(bridge_admin_input=TEXT, bridge_seal=seal(TEXT, "bridge"))
    side = Worked()
    assert await customer_from_bridge(crossed.bridge_admin_input, crossed.bridge_seal, side=side) == Returned(customer_response="answered")
    assert side.tasks == [(TEXT, "")]


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
async def test_empty_input_causes_no_call(empty: str):
    classifier, worker, vault = Sorted("route_bridge"), Worked(), Kept("key")
    answered = await supervisor(empty, classifier=classifier, worker=worker, vault=vault)
    assert answered == Answered(supervisor_response="Empty admin input.", secret_key_ref="", secret_context="")
    assert await customer(empty, "", worker=worker) == Responded(response="Empty user input.")
    assert await customer("", empty, worker=worker) == Responded(response="Empty user input.")
    assert (classifier.asked, worker.tasks, vault.fetched) == ([], [], [])


async def test_the_customer_node_answers_both_origins():
    worker = Worked()
    assert await customer("read /docs/a.md", "", worker=worker) == Responded(response="done")
    assert await customer("", "read /docs/b.md", worker=worker) == Responded(response="done")
    assert worker.tasks == [("read /a.md", ""), ("read /b.md", "")]


# The bridge


def test_bridge_denied_is_a_permission_error():
    assert issubclass(BridgeAccessError, PermissionError)
    assert issubclass(BridgeAccessError, TurnError)
    assert BridgeAccessError("No.").code == "bridge_denied"
    assert not BridgeAccessError("No.").transient


FORGED = {
    "no proof": ("supervisor", ""),
    "a word": ("supervisor", "supervisor"),
    "zeros": ("supervisor", "0" * 64),
    "of another text": ("supervisor", seal("another text", "supervisor")),
    "of an empty text": ("supervisor", seal("", "supervisor")),
    "of the text with a space": ("supervisor", seal(TEXT + " ", "supervisor")),
    "backwards": ("supervisor", seal(TEXT, "supervisor")[::-1]),
    "in capitals": ("supervisor", seal(TEXT, "supervisor").upper()),
    "cut": ("supervisor", seal(TEXT, "supervisor")[:-1]),
    "with more": ("supervisor", seal(TEXT, "supervisor") + "0"),
    "no ASCII": ("supervisor", "é" * 64),
    "a lone surrogate": ("supervisor", "\ud800" * 64),
    "the admin's own": ("admin_cli", seal(TEXT, "supervisor")),
    "the bridge's own": ("bridge", seal(TEXT, "supervisor")),
    "in other letters": ("Supervisor", seal(TEXT, "supervisor")),
    "nobody": ("", seal(TEXT, "supervisor")),
}


@pytest.mark.parametrize(("origin", "proof"), FORGED.values(), ids=FORGED)
async def test_the_bridge_rejects_every_origin_without_a_seal(origin: str, proof: str):
    with pytest.raises(BridgeAccessError) as refused:
        await bridge(origin, proof, TEXT)  # pyright: ignore[reportArgumentType] - that is what is tried
    assert TEXT not in str(refused.value)
    assert seal(TEXT, "supervisor") not in str(refused.value)


@pytest.mark.parametrize(
    "given_seal",
    ["", "bridge", "0" * 64, seal("another", "bridge"), seal(TEXT, "supervisor"), seal(TEXT, "bridge").upper()],
    ids=["none", "a word", "zeros", "of another text", "of the supervisor", "in capitals"],
)
async def test_the_customer_side_accepts_only_sealed_text(given_seal: str):
    side = Worked()
    with pytest.raises(BridgeAccessError) as refused:
        await customer_from_bridge(TEXT, given_seal, side=side)
    assert (side.tasks, TEXT in str(refused.value)) == ([], False)


@given(text=st.text(), other=st.text())
def test_a_seal_is_valid_for_one_text(text: str, other: str):
    assert is_sealed(seal(text, "supervisor"), text, "supervisor")
    assume(text != other)
    assert not is_sealed(seal(text, "supervisor"), other, "supervisor")


@given(text=st.text())
def test_a_seal_is_valid_for_one_node(text: str):
    assert not is_sealed(seal(text, "supervisor"), text, "bridge")
    assert not is_sealed(seal(text, "bridge"), text, "supervisor")


@given(proof=st.text(), text=st.text())
def test_a_seal_cannot_be_guessed(proof: str, text: str):
    assert not is_sealed(proof, text, "supervisor")


# What the graphs are made of


def test_the_sides_share_neither_node_nor_capability():
    assert not {*admin_graph.nodes} & {*user_graph.nodes}
    assert not {*admin_graph.capabilities} & {*user_graph.capabilities}
    assert agent.entries == {"admin": admin_graph, "user": user_graph}
    assert [capability.__name__ for capability in user_graph.capabilities] == ["DocsWorker"]


def test_a_caller_sets_one_field_on_either_side():
    assert (admin_graph.state.takes, admin_graph.state.takes_from_parent) == (("admin_input",), ())
    assert (user_graph.state.takes, user_graph.state.takes_from_parent) == (("user_input",), ("bridge_input", "origin"))


def test_no_state_field_holds_the_secret():
    assert {name for name in admin_graph.state.fields if "secret" in name} == {"secret_key_ref", "secret_context"}
    assert [name for name in user_graph.state.fields if "secret" in name or "admin" in name] == []
    assert {admin_graph.state.fields[name].labels for name in ("origin_seal", "bridge_seal")} == {(Secret,)}


def test_the_bridge_is_granted_nothing_and_no_node_a_model():
    assert admin_graph.nodes["bridge"].grants == ()
    for graph in (admin_graph, user_graph):
        assert "Model" not in {grant.name for node in graph.nodes.values() for grant in node.grants}
        assert all("Model" in graph.may_not(name) for name in graph.nodes)
    assert {*user_graph.may_not("customer")} == {"Model", "AdminWorker", "Classifier", "CustomerSide", "Vault", "branch"}
