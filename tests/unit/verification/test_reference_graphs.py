"""Reference graphs: each is refused with one code, and with the path of the value or of the nodes."""

from pathlib import Path

import pytest

from interlock.verification.proofs import prove_graph
from tests.unit.verification.reading import HEAD, module_from

FOLDER = Path(__file__).parent / "graphs"
REFUSED = {part.partition("\n")[0]: part.partition("\n")[2] for part in (FOLDER / "refused.txt").read_text().split("### ") if part}
DOCUMENT = """# `desk`

```mermaid
flowchart TD
    START --> first --> END
```

| node | may read | may write | may use | must not |
|---|---|---|---|---|
| `first` | `text` | nothing | nothing | nothing |

```claims
CLAIM
```
"""
GRAPH = """
graph = Graph("desk", state=Desk, entry=first, takes=["text"], nodes=[node(step, goes=goes) for step, goes in rows.items()])
"""


@pytest.mark.parametrize("name", REFUSED)
def test_a_reference_graph_is_refused_with_its_code_and_its_path(name: str, tmp_path: Path):
    expected, _, source = REFUSED[name].partition("\n")
    code, _, path = expected.partition(": ")
    document: Path | None = None
    if code == "claim_broken":
        claim, _, source = source.partition("\n")
        document = tmp_path / "document.md"
        document.write_text(DOCUMENT.replace("CLAIM", claim))
    head = HEAD.replace("Trusted, Untrusted, node", "Secret, Trusted, Untrusted, node")
    made = module_from(head + (FOLDER / "common.txt").read_text() + source + GRAPH, tmp_path)
    faults = [fault for fault in prove_graph(made.graph, document).faults if fault.code not in {"unused_read", "unused_grant"}]
    assert [(fault.code, " -> ".join(fault.path)) for fault in faults] == [(code, path)]


def test_there_are_twelve_of_them():
    assert len(REFUSED) == 12
