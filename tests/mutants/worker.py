"""Judges changed agents: a process that has imported everything but the agents, and forks for each change.

Reads lines of JSON: an agent and a change. Writes a line for each: whether it still builds, which faults the prover finds, in how many
lines its certificate differs from the committed one (`meant`: apart from the sources of its nodes), which invariants its examples break.
"""

import asyncio
import contextlib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interlock.discovery import load_agent
from interlock.verification.certificate import certificate, changes
from interlock.verification.proofs import prove_agent
from interlock.verification.verdicts import verify_agent

ROOT, COMMITTED = Path(sys.argv[1]), Path(sys.argv[2])
COMPARED = {"undeclared_decision", "stale_decision", "undeclared_source", "stale_source", "guard_unknown"}
"""Faults that go away when the author writes the document anew."""
SOURCES = (" body: ", " functions: ")
"""What stands in a certificate of the sources of a node: it changes with every change of them, whatever that means."""
LIMIT = 60


def judge(name: str, *, run: bool = True) -> dict[str, Any]:
    """Judge an agent as it stands on the disk now. Without `run`, no example turns are run."""
    try:
        agent = load_agent(name)
    except Exception as error:  # noqa: BLE001 - whatever a change breaks while building
        return {"built": False, "why": f"{type(error).__name__}: {error}"}
    import interlock_agents  # noqa: PLC0415 - only the child has the agents

    assert str(ROOT) in str(interlock_agents.__path__)
    proofs = prove_agent(agent)
    faults = [fault.code for proof in proofs.values() for fault in proof.faults]
    new = json.loads(json.dumps(certificate(name, proofs)))
    old = json.loads((COMMITTED / f"{name}.json").read_text(encoding="utf-8"))
    lines = list(changes(old, new))
    meant = [line for line in lines if not any(part in line for part in SOURCES)]
    found: dict[str, Any] = {"built": True, "faults": sorted(set(faults)), "changed": len(lines), "meant": len(meant), "examples": []}
    if run and not set(faults) - COMPARED:
        signal.alarm(LIMIT)
        found["examples"] = asyncio.run(examples(agent, proofs))
    return found


async def examples(agent: Any, proofs: Any) -> list[str]:
    """Run the example turns of an agent. Return the invariants that do not hold."""
    statements = {one.statement for one in agent.invariants}
    return [one.invariant async for one in verify_agent(agent, proofs) if one.invariant in statements and not one.holds]


def forked(work: Callable[[], Any]) -> Any:
    """Return what a fork of this process returns, None if it dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as end:
            try:
                with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):  # noqa: PTH123 - one line
                    said = work()
                end.write(json.dumps(said))
            except BaseException:  # noqa: BLE001 - the parent has to hear of everything
                end.write(
                    json.dumps(
                        {"built": True, "faults": [], "changed": 0, "meant": 0, "examples": ["it broke off"], "why": traceback.format_exc()}
                    )
                )
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as end:
        said = end.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else None


def main() -> None:
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT))
    importlib.import_module("interlock.engine.langgraph")  # takes most of a second
    warm: set[str] = set()
    for line in sys.stdin:
        agent, file, text = json.loads(line)
        if agent not in warm:
            # What the agents import of others is imported here once.
            warm.add(agent)
            for name in forked(
                lambda agent=agent: (judge(agent, run=False), [one for one in sys.modules if not one.startswith("interlock_agents")])[1]
            ):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        path = ROOT / "interlock_agents" / file if file else None
        before = path.read_text(encoding="utf-8") if path is not None else ""
        try:
            if path is not None:
                path.write_text(text, encoding="utf-8")
            said = forked(lambda agent=agent: judge(agent))
        finally:
            if path is not None:
                path.write_text(before, encoding="utf-8")
        # A turn that does not end is seen by whoever runs it.
        said = said or {"built": True, "faults": [], "changed": 0, "meant": 0, "examples": ["it did not end"]}
        print(json.dumps(said), flush=True)  # noqa: T201 - what this process is for


main()
