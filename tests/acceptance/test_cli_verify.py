from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from interlock.discovery import load_agent

Command = Callable[..., CompletedProcess[str]]

COUNTER = '''
from typing import TypedDict

from interlock import END, Graph, Outcome, node
from interlock.capabilities import Clock


class Count(TypedDict, total=False):
    text: str
    count: int


class Counted(Outcome):
    count: int


async def count_letters(text: str, *, clock: Clock) -> Counted:
    """Count."""
    return Counted(count=len(text))


counter = Graph("counter", state=Count, entry=count_letters, nodes=[node(count_letters, goes={Counted: END})], takes=["text"])
'''
DOCUMENT = """# The `counter`

```mermaid
flowchart TD
    START --> count_letters
    count_letters -->|Counted| END
```

| node | may read | may write | may use | must not |
|---|---|---|---|---|
| `count_letters` | `text` | `count` | `Clock` | `branch` |
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "counting.py").write_text(COUNTER)
    (tmp_path / "good.md").write_text(DOCUMENT)
    (tmp_path / "bad.md").write_text(DOCUMENT.replace("`Clock`", "nothing").replace("|Counted|", "|Finished|"))
    (tmp_path / "unreadable.md").write_text("# Nothing here")
    return "counting:counter"


def test_every_guarantee_holds_and_says_how_that_is_known(interlock: Command):
    ran = interlock("verify", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    verified = json.loads(ran.stdout)
    assert verified.keys() == {"ok", "agents", "faults", "changes"}
    assert not any(verified["faults"].values())
    assert verified["ok"] is True
    assert verified["agents"].keys() == {"sam", "desk", "analyst", "gateway", "puntini"}
    for verdict in (verdict for verdicts in verified["agents"].values() for verdict in verdicts):
        assert verdict.keys() == {"invariant", "holds", "how", "proof"}
        assert verdict["holds"] is True
        assert verdict["how"] in {"proved", "agrees", "decided", "seen", "trusted"}
        assert verdict["proof"]
    for name, verdicts in verified["agents"].items():
        agent = load_agent(name)
        others = [verdict for verdict in verdicts if verdict["how"] in {"agrees", "decided", "seen"}]
        compared = [
            verdict for verdict in others if " are the document's" in verdict["invariant"] and "rows are" not in verdict["invariant"]
        ]
        assert len(others) - len(compared) == 4 * len(agent.graphs) + len(agent.invariants)


def test_one_agent_is_verified_line_by_line(interlock: Command):
    ran = interlock("verify", "sam")
    assert (ran.returncode, ran.stderr) == (0, "")
    heading, *lines = ran.stdout.splitlines()
    assert heading == "sam"
    assert len(lines) > 4 + len(load_agent("sam").invariants)
    assert all(line.startswith(("proved\t", "agrees\t", "decided\t", "seen\t", "trusted\t")) and line.count("\t") == 2 for line in lines)
    assert "proved\tsam: task_preprocessing_node before ModelBackend\ton all paths: 13 states" in lines


def test_a_graph_of_ones_own_is_compared_with_its_document(interlock: Command, target: str):
    ran = interlock("verify", target, "--document", "good.md", "--json")
    verified = json.loads(ran.stdout)
    assert (ran.returncode, verified["ok"]) == (0, True)
    assert [verdict["invariant"] for verdict in verified["agents"]["counter"]] == [
        "counter: signatures, state and rows fit together",
        "counter: LangGraph draws the nodes and edges of the rows",
        "counter: every outcome leads where its row says, on both engines",
        "counter: no field has a label, so nothing is proved of decisions and effects",
        "counter: the rows are the document's",
    ]


def test_a_graph_that_differs_from_its_document_is_broken_by_name(interlock: Command, target: str):
    ran = interlock("verify", target, "--document", "bad.md")
    assert ran.returncode == 1
    *held, broken = ran.stdout.splitlines()[1:]
    assert all(line.startswith(("agrees\t", "decided\t", "trusted\t")) for line in held)
    assert broken.startswith("BROKEN\tcounter: the rows are the document's\t")
    for difference in (
        "edge 'count_letters - Finished -> END' is in the document but not in the rows",
        "edge 'count_letters - Counted -> END' is in the rows but not in the document",
        "node 'count_letters', 'may use': 'Clock' is in the rows but not in the document",
    ):
        assert difference in broken


@pytest.mark.parametrize("document", ["unreadable.md", "missing.md"])
def test_a_document_that_cannot_be_read_is_broken(interlock: Command, target: str, document: str):
    ran = interlock("verify", target, "--document", document, "--json")
    verified = json.loads(ran.stdout)
    assert (ran.returncode, verified["ok"]) == (1, False)
    assert [verdict["holds"] for verdict in verified["agents"]["counter"]] == [True, True, True, True, False]


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            "src/interlock_agents/gateway/document.md",
            "'document.md' has no part for graph 'counter'; it has parts for 'gateway.admin', 'gateway.user'",
        ),
        ("src/interlock_agents/sam/document.md", "'document.md' describes another graph: none of its 8 nodes is a node of 'counter'"),
    ],
)
def test_a_document_of_another_graph_is_one_sentence(interlock: Command, target: str, document: str, says: str):
    ran = interlock("verify", target, "--document", str(ROOT / document))
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[-1] == f"BROKEN\tcounter: the rows are the document's\t{says}"


def test_an_agent_that_does_not_exist_is_refused(interlock: Command):
    ran = interlock("verify", "nobody")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("agent_unknown: ")


def test_a_certificate_is_written_and_shows_what_has_changed(interlock: Command, tmp_path: Path):
    written = interlock("verify", "sam", "--certificate", "sam.json", "--sarif", "sam.sarif")
    assert (written.returncode, written.stderr) == (0, "")
    certificate = json.loads((tmp_path / "sam.json").read_text())
    assert certificate["graphs"]["sam"]["nodes"]["decision_logic_node"]["decides"]["command"] == "choice"
    assert json.loads((tmp_path / "sam.sarif").read_text())["runs"][0]["results"] == []
    assert interlock("verify", "sam", "--against", ".").returncode == 0
    certificate["graphs"]["sam"]["nodes"]["decision_logic_node"]["decides"]["raw_input"] = "text"
    (tmp_path / "sam.json").write_text(json.dumps(certificate))
    changed = interlock("verify", "sam", "--against", ".")
    assert changed.returncode == 1
    assert '- sam: graphs sam nodes decision_logic_node decides raw_input: "text"' in changed.stdout.splitlines()
