"""Labels, secrets, effects, claims and certificates: what breaks is found, named and explained, and what is forged does not stand."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from interlock.agent import Agent
from interlock.contract.document import read_document
from interlock.discovery import load_agent
from interlock.testing.verified import assert_verified
from interlock.verification.certificate import certificate, changes
from interlock.verification.checker import check_certificate
from interlock.verification.faults import RULES, Fault
from interlock.verification.overview import flowchart, rule_of_two
from interlock.verification.proofs import GraphProof, prove_agent, prove_graph
from interlock.verification.sarif import sarif
from tests.unit.verification.reading import HEAD, module_from

AGENTS = ("sam", "desk", "analyst", "gateway", "puntini")
FORMS = """
class Told(Outcome):
    count: int
    mood: Literal["a", "b"]
    said: str


class Desk(Capability, Protocol):
    async def key(self) -> Annotated[str, Secret]: ...

    async def send(self, to: Annotated[str, Trusted], words: str) -> bool: ...


@dataclass
class Shop:
    text: Annotated[str, Untrusted]
    count: Annotated[int, Trusted] = 0
    mood: Annotated[Literal["a", "b"], Control] = "a"
    said: Annotated[str, Untrusted] = ""


async def tell(text: str, *, desk: Desk) -> Told:
BODY


graph = Graph("shop", state=Shop, entry=tell, takes=["text"], nodes=[node(tell, goes={Told: END})])
"""


def shop(body: str, folder: Path) -> GraphProof:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    head = HEAD.replace("Trusted, Untrusted, node", "Secret, Trusted, Untrusted, node")
    return prove_graph(module_from(head + FORMS.replace("BODY", lines), folder).graph)


BROKEN = {
    "label_exceeded": 'return Told(count=len(text), mood="a", said="")',
    "label_exceeded by a condition": 'mood = "a" if text == "x" else "b"\nreturn Told(count=1, mood=mood, said="")',
    "untrusted_argument": 'await desk.send(text, "hello")\nreturn Told(count=1, mood="a", said="")',
    "secret_written": 'return Told(count=1, mood="a", said=await desk.key())',
    "secret_written by a condition": 'said = "x" if await desk.key() == "k" else "y"\nreturn Told(count=1, mood="a", said=said)',
    "secret_told": 'await desk.send("me", await desk.key())\nreturn Told(count=1, mood="a", said="")',
    "secret_told by a condition": 'if await desk.key() == "k":\n    await desk.send("me", "x")\nreturn Told(count=1, mood="a", said="")',
    "secret_raised": 'if await desk.key() == "k":\n    raise ValueError("no")\nreturn Told(count=1, mood="a", said="")',
    "unused_grant": 'return Told(count=1, mood="a", said=text)',
    "unused_read": 'await desk.send("me", "x")\nreturn Told(count=1, mood="a", said="")',
    "ambient": 'return Told(count=1, mood="a", said=text + str(time.time()))',
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_a_guarantee_has_its_code_its_line_and_a_fix(name: str, tmp_path: Path):
    found = [fault for fault in shop(BROKEN[name], tmp_path).faults if fault.code == name.partition(" ")[0]]
    assert found
    assert found[0].node == "tell"
    assert found[0].line
    assert found[0].fix


SHOP = """
class Done(Outcome):
    said: str


class Other(Outcome):
    said: str


class Vault(Capability, Protocol):
    async def key(self) -> Annotated[str, Secret]: ...

    async def send(self, words: str) -> bool: ...


@guard
def open_guard(text: str) -> str:
    return text


@dataclass
class Shop:
    text: Annotated[str, Untrusted]
    said: Annotated[str, LABEL] = ""


async def tell(text: str, *, vault: Vault) -> Done | Other:
BODY


async def rest(said: str) -> Done:
    return Done(said=said)


graph = Graph("shop", state=Shop, entry=tell, takes=["text"], gives="said", nodes=[
    node(tell, goes={Done: END, Other: rest}), node(rest, goes={Done: END})])
"""
DECIDING = {
    "untrusted_decision": ('await vault.send("x")\nreturn Done(said="a") if text == "a" else Other(said="b")', "Untrusted"),
    "secret_decides": ('return Done(said="a") if await vault.key() == "a" else Other(said="b")', "Untrusted"),
    "secret_given": ('return Done(said=text) if await vault.send("x") else Other(said=await vault.key())', "Secret"),
    "unlabelled_field": ('return Done(said="a") if await vault.send(text) else Other(said="b")', '"no label"'),
    "control_taken": ('return Done(said="a") if await vault.send(text) else Other(said="b")', "Untrusted"),
    "dead_outcome": ("await vault.send(text)\nreturn Done(said=text)", "Untrusted"),
    "body_unread": ('await vault.send("x")\nmatch text:\n    case "a":\n        return Done(said="")\nreturn Other(said="")', "Untrusted"),
    "open_guard": ('return Done(said="a") if await vault.send(open_guard(text)) else Other(said="b")', "Untrusted"),
}


@pytest.mark.parametrize("code", DECIDING)
def test_what_breaks_a_graph_has_its_code_and_a_fix(code: str, tmp_path: Path):
    body, label = DECIDING[code]
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    head = HEAD.replace("Trusted, Untrusted, node", "Secret, Trusted, Untrusted, node")
    source = SHOP.replace("BODY", lines).replace("LABEL", label)
    if code == "control_taken":
        source = source.replace("text: Annotated[str, Untrusted]", "text: Annotated[str, Trusted]")
    found = [fault for fault in prove_graph(module_from(head + source, tmp_path).graph).faults if fault.code == code]
    assert found
    assert found[0].fix


def test_every_code_is_shown_by_a_test():
    compared = {"undeclared_decision", "stale_decision", "guard_unknown", "stale_source", "undeclared_source"}
    assert {name.partition(" ")[0] for name in BROKEN} | set(DECIDING) | set(CLAIMS) | compared == set(RULES)


def test_the_flowchart_shows_what_steers_a_node():
    flow = prove_agent(load_agent("analyst"))["analyst"].flow
    lines = flowchart(flow).splitlines()
    assert any(line.strip().startswith("Model_decide") and "-.->" in line and line.endswith("planner") for line in lines)
    assert '    verifier -.->|"retry_count"| planner' in lines
    assert "    class planner,verifier decides" in lines
    assert "    ingress -->|Admitted| planner" in lines


def test_an_entry_with_text_secrets_and_effects_is_named():
    agent = load_agent("gateway")
    behind = {capability: subgraph.graph for capability, subgraph in agent.subgraphs.items()}
    found = {graph.name: set(rule_of_two(graph, behind)) for graph in agent.entries.values()}
    assert found == {"gateway.admin": {"text from outside", "secrets", "effects"}, "gateway.user": {"text from outside", "effects"}}
    lines = [line for line in prove_agent(agent)["gateway.admin"].lines() if "rule of two" in line.statement]
    assert [line.tier for line in lines] == ["trusted"]


def test_a_graph_that_keeps_its_labels_has_no_fault(tmp_path: Path):
    kept = 'done = await desk.send("me", text)\nreturn Told(count=1, mood="a" if done else "b", said=text)'
    assert [str(fault) for fault in shop(kept, tmp_path).faults] == []


def test_a_fault_names_the_path_of_the_value(tmp_path: Path):
    (fault,) = [one for one in shop(BROKEN["label_exceeded"], tmp_path).faults if one.code == "label_exceeded"]
    assert fault.path == ("the caller", "text", "count")


@pytest.mark.parametrize("name", AGENTS)
def test_the_agents_prove_all_that_their_documents_say(name: str):
    agent = load_agent(name)
    assert_verified(agent)
    proofs = prove_agent(agent)
    assert all(flow.is_read for proof in proofs.values() for flow in proof.flow.nodes.values())


def test_the_documents_make_at_least_112_claims_and_every_bound_is_exact(tmp_path: Path):
    count = 0
    for name in AGENTS:
        agent = load_agent(name)
        assert agent.document is not None
        text = agent.document.read_text(encoding="utf-8")
        for graph in agent.graphs:
            lines = [line for block in read_document(text, graph=graph.name).claims for line in block.lines]
            count += len(lines)
        bounds = [line for line in text.splitlines() if line.startswith("at most ")]
        lowered = "\n".join(
            f"at most {int(line.split()[2]) - 1} {' '.join(line.split()[3:])}" if line.startswith("at most ") else line
            for line in text.splitlines()
        )
        broken = [fault for proof in prove_agent(agent, _written(agent, lowered, tmp_path)).values() for fault in proof.faults]
        statements = {fault.message.split("'")[1] for fault in broken if fault.code == "claim_broken"}
        wanted = {line for line in lowered.splitlines() if line.startswith("at most ")}
        assert wanted == statements, f"{name}: {wanted ^ statements}"
        assert bounds
    assert count >= 112


def _written(agent: Agent, text: str, folder: Path) -> Path:
    file = folder / f"{agent.name}.md"
    file.write_text(text)
    return file


CLAIMS = {
    "claim_broken": "result_handling_node before model_call_node",
    "claim_vacuous": "error_router_node before Memory",
    "claim_unknown": "router_nod before model_call_node",
}


@pytest.mark.parametrize("code", CLAIMS)
def test_a_claim_that_does_not_hold_is_explained(code: str, tmp_path: Path):
    agent = load_agent("sam")
    assert agent.document is not None
    text = agent.document.read_text(encoding="utf-8").replace("```claims\n", f"```claims\n{CLAIMS[code]}\n", 1)
    (fault,) = prove_agent(agent, _written(agent, text, tmp_path))["sam"].faults
    assert fault.code == code
    if code == "claim_broken":
        assert fault.path[-1].startswith("model_call_node")
        assert fault.path[0] == "router_node"
    if code == "claim_unknown":
        assert "router_node" in fault.message


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("`command`, `final_output?`, `preprocessing_result?` |", "`command`, `final_output?` |", "undeclared_decision"),
        (
            "`command`, `final_output?`, `preprocessing_result?` |",
            "`command`, `final_output?`, `preprocessing_result?`, `raw_input` |",
            "stale_decision",
        ),
        ("| `kind_of` |", "| `kind` |", "guard_unknown"),
    ],
)
def test_the_document_is_compared_both_ways(old: str, new: str, code: str, tmp_path: Path):
    agent = load_agent("sam")
    assert agent.document is not None
    text = agent.document.read_text(encoding="utf-8")
    assert old in text
    faults = prove_agent(agent, _written(agent, text.replace(old, new), tmp_path))["sam"].faults
    assert {fault.code for fault in faults} == {code}


@pytest.mark.parametrize(("old", "code"), [("`admin_input` |\n| `Vault", "stale_source"), ("`Vault.reference()` |", "undeclared_source")])
def test_the_sources_of_effects_are_compared_both_ways(old: str, code: str, tmp_path: Path):
    agent = load_agent("gateway")
    assert agent.document is not None
    text = agent.document.read_text(encoding="utf-8")
    assert old in text
    new = old.replace("`admin_input` |", "`admin_input`, `origin` |") if code == "stale_source" else "nothing |"
    faults = prove_agent(agent, _written(agent, text.replace(old, new), tmp_path))["gateway.admin"].faults
    assert code in {fault.code for fault in faults}


def test_forged_certificates_do_not_stand():
    """Each forgery changes, adds or drops something that the rows, the document or the sources of the functions contradict."""
    random_ = random.Random(7)  # noqa: S311 - forgeries, not keys
    stood: list[str] = []
    tried: list[str] = []
    for name in AGENTS:
        agent = load_agent(name)
        true = json.loads(json.dumps(certificate(name, prove_agent(agent))))
        assert check_certificate(true, agent) == []
        for _ in range(80):
            forged = copy.deepcopy(true)
            how = _forge(forged, random_)
            tried.append(how)
            if not check_certificate(forged, agent):
                stood.append(f"{name}: {how}")
    assert len(tried) == 400
    assert len(set(tried)) == 24
    assert stood == []


def test_a_text_that_is_called_a_choice_does_not_stand():
    agent = load_agent("analyst")
    forged = json.loads(json.dumps(certificate("analyst", prove_agent(agent))))
    forged["graphs"]["analyst"]["nodes"]["planner"]["decides"]["question"] = "choice"
    assert set(check_certificate(forged, agent)) == {
        "analyst: the decisions are not the document's",
        "analyst: planner: 'question' is called a choice and has no closed type",
    }


def _forge(forged: dict[str, Any], random_: random.Random) -> str:
    graph = random_.choice(list(forged["graphs"].values()))
    node = random_.choice(list(graph["nodes"].values()))
    called = [one for one, calls in node["calls"].items() if calls]
    ways: dict[str, tuple[Any, Any, Any]] = {
        "a label": (graph["labels"], random_.choice(list(graph["labels"])), ["Forged"]),
        "other rows": (graph, "fingerprint", "0" * 16),
        "a target": (node["goes"], random_.choice(list(node["goes"])), "elsewhere"),
        "a field": (node["writes"], "forged", []),
        "an argument": (node["arguments"], "Forged.call(words)", ["text"]),
        "no nodes": (graph, "nodes", {}),
        "another agent": (forged, "agent", "forged"),
        "another version": (forged, "version", 2),
        "another assumption": (forged, "assumed", forged["assumed"][1:]),
        "a body": (node, "body", "0" * 12),
        "a function that was not read": (node, "functions", ["json.dumps", *node["functions"]]),
        "a body that is not read": (node, "read", False),
        "another part": (node, "forged", {}),
        "a trusted result": (graph["trusted"], "result", ["Forged.call"]),
    }
    if graph["claims"]:
        ways["a claim less"] = (graph, "claims", graph["claims"][1:])
        ways["a claim"] = (graph["claims"], random_.randrange(len(graph["claims"])), "never END")
    if graph["guards"]:
        ways["a guard"] = (graph["guards"], random_.choice(list(graph["guards"])), "json.dumps " + "0" * 16)
    if graph["effects"]:
        row = random_.choice(graph["effects"])
        ways["a source of an effect"] = (row, 3, row[3][1:] or ["forged"])
    if len(node["decides"]) > 1:
        ways["a decision less"] = (node, "decides", dict(list(node["decides"].items())[1:]))
    text = [
        field
        for field, labels in graph["labels"].items()
        if "Untrusted" in labels and any(field in said for said in node["writes"].values())
    ]
    if node["decides"] and text:
        ways["a text that is called trusted"] = (node["decides"], random_.choice(text), "trusted")
    if node["decides"]:
        ways["a level"] = (node["decides"], random_.choice(list(node["decides"])), "text")
        ways["a decision"] = (node["decides"], "nothing_it_knows", "choice")
        ways["no decision"] = (node, "decides", {})
    if called:
        calls = node["calls"][random_.choice(called)]
        ways["a count"] = (calls, random_.choice(list(calls)), [2, 1])
    how = random_.choice(list(ways))
    owner, key, value = ways[how]
    owner[key] = value
    return how


def test_a_changed_agent_shows_in_its_certificate():
    agent = load_agent("sam")
    before = certificate("sam", prove_agent(agent))
    after = copy.deepcopy(before)
    after["graphs"]["sam"]["nodes"]["router_node"]["decides"] = {"raw_input": "text"}
    assert list(changes(before, after)) == ['+ graphs sam nodes router_node decides raw_input: "text"']
    assert list(changes(before, before)) == []


@pytest.mark.parametrize("name", AGENTS)
def test_the_committed_certificate_is_what_is_proved(name: str):
    committed = json.loads((Path(__file__).parents[3] / "certificates" / f"{name}.json").read_text(encoding="utf-8"))
    assert list(changes(committed, json.loads(json.dumps(certificate(name, prove_agent(load_agent(name))))))) == []


def test_sarif_has_every_code_and_the_place(tmp_path: Path):
    fault = Fault("untrusted_decision", "shop", "decides on text.", "use a guard.", "tell", line=7, file=str(tmp_path / "shop.py"))
    log = sarif([fault], root=tmp_path)
    run = log["runs"][0]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(RULES)
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "shop.py"}, "region": {"startLine": 7}}


def test_assert_verified_says_what_is_wrong(tmp_path: Path):
    graph = shop(BROKEN["label_exceeded"], tmp_path).graph
    with pytest.raises(AssertionError, match="label_exceeded: shop: tell"):
        assert_verified(graph)


def test_each_trusted_thing_is_listed_with_a_reason():
    proofs = prove_agent(load_agent("gateway"))
    counted = [line.statement for line in proofs["gateway.admin"].lines() if line.proof == "--trusted lists them"]
    listed = {line.statement: line.proof for line in proofs["gateway.admin"].trusted_lines()}
    assert counted == ["gateway.admin: 2 guards, 1 trusted result of a capability, 3 functions that are not read"]
    assert len(listed) == 6
    assert listed["gateway.admin: guard is_blank"].endswith("Return whether a text is empty or white space.")
    assert "gateway.admin: result Vault.reference" in listed
