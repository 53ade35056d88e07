"""Generated bodies are run for real, in pairs that differ in text alone: where text steers a run, the prover has to say so."""

import copy
import linecache
import os
import random
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from interlock.contract.node import Node
from interlock.verification.flows import NodeFlow
from interlock.verification.nodes import read_node
from interlock.verification.sources import Level
from interlock.verification.statements import Statements
from interlock.verification.values import Value
from tests.unit.verification.generated import Writer
from tests.unit.verification.reading import HEAD, PARAMETERS

AMOUNT = int(os.environ.get("INTERLOCK_TEST_BODIES", "2000"))
FORGETTING = {"change": range(50, 100), "consume": range(250, 300)}
"""Bodies that show a prover which is broken on purpose, by the method that is broken."""
TEXTS = ("a", "b", "ab", "left", "", "1", "z")
EXTRA = """
def raise_if(text: str) -> None:
    if text == "ab":
        raise ValueError(text)


"""
SOURCE = HEAD + EXTRA


class Answers:
    """Answers with the same choice and other words."""

    def __init__(self, module: Mapping[str, Any], kind: str, words: str) -> None:
        self._reply = module["Reply"](kind, words)

    async def ask(self, question: str) -> Any:
        return self._reply


def built(bodies: list[str], name: str) -> tuple[dict[str, Any], list[Any]]:
    parameters = ", ".join(f"{parameter}: {hint}" for parameter, hint in PARAMETERS.items())
    source = SOURCE
    for index, body in enumerate(bodies):
        source += f"async def step_{index}({parameters}, *, oracle: Oracle, other: Other) -> Left | Right:\n{body}\n\n\n"
    file = f"/generated/{name}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    import sys  # noqa: PLC0415 - the module has to be found by its name

    sys.modules[name] = module
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - bodies that this test has written
    return module.__dict__, [module.__dict__[f"step_{index}"] for index in range(len(bodies))]


def run(step: Any, module: Mapping[str, Any], inputs: dict[str, Any], kind: str, words: str) -> str | None:
    given = copy.deepcopy(inputs)
    body = step(*given.values(), oracle=Answers(module, kind, words), other=Answers(module, kind, words + "!"))
    try:
        body.send(None)
    except StopIteration as end:
        return type(end.value).__name__
    except Exception:  # noqa: BLE001 - a body that fails is excused
        return None
    return None


def inputs_of(random_: random.Random, same: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return inputs. With `same`, only what is text differs: choices, flags and what is there at all stay as they are."""
    full = [text for text in TEXTS if text]
    new: dict[str, Any] = {
        "text": random_.choice(full),
        "note": random_.choice([None, "a", "b"]),
        "items": tuple(random_.choice(full) for _ in range(random_.randint(0, 3))),
        "notes": [],
        "marks": {},
        "choice": random_.choice("ab"),
        "flag": random_.random() < 0.5,
        "limit": random_.randint(0, 3),
    }
    if same is not None:
        new |= {name: same[name] for name in ("choice", "flag", "limit")}
        new["note"] = None if same["note"] is None else random_.choice(full)
        new["items"] = tuple(random_.choice(full) for _ in range(random_.randint(1, 3))) if same["items"] else ()
    return new


def decides_on_text(step: Any, module: Mapping[str, Any]) -> bool | None:
    from interlock import END, Graph, node  # noqa: PLC0415 - only what this needs

    rows = [node(step, goes={module["Left"]: module["left"], module["Right"]: module["right"]})]
    rows += [node(module[name], goes={module["Done"]: END}) for name in ("left", "right")]
    made: Node = Graph("generated", state=module["State"], entry=step, nodes=rows).nodes[step.__name__]
    flow = NodeFlow(made, read_node(made))
    return None if not flow.is_read else any(source.level == Level.TEXT for source in flow.decisions)


@dataclass
class Judged:
    """What became of generated bodies: how many are called independent, how many are not read, and those that are judged wrong."""

    independent: int = 0
    unread: int = 0
    missed: list[str] = field(default_factory=list[str])


def judge(wanted: range) -> Judged:
    """Generate bodies, and run those that the prover calls independent."""
    judged = Judged()
    for batch in range(wanted.start, wanted.stop, 50):
        seeds = range(batch, min(batch + 50, wanted.stop))
        bodies = [Writer(seed).body() for seed in seeds]
        module, steps = built(bodies, f"generated_{batch}")
        for seed, body, step in zip(seeds, bodies, steps, strict=True):
            verdict = decides_on_text(step, module)
            judged.unread += verdict is None
            if verdict is False:
                judged.independent += 1
                if is_steered(step, module, random.Random(seed)):  # noqa: S311 - inputs, not keys
                    judged.missed.append(f"seed {seed}:\n{body}")
    return judged


def is_steered(step: Any, module: Mapping[str, Any], random_: random.Random) -> bool:
    """Return whether two runs that differ in text alone end in different outcomes."""
    for _ in range(12):
        first = inputs_of(random_)
        kind = random_.choice("ab")
        before = run(step, module, first, kind, random_.choice(TEXTS))
        for _ in range(6):
            after = run(step, module, inputs_of(random_, first), kind, random_.choice(TEXTS))
            if None not in (before, after) and before != after:
                return True
    return False


def test_no_body_that_text_steers_is_called_independent():
    judged = judge(range(AMOUNT))
    assert judged.missed == [], "\n\n".join(judged.missed[:3])
    # The test has to have something to say: bodies that are independent, and few that are not read.
    assert judged.independent > AMOUNT // 20
    assert judged.unread < AMOUNT // 10


@pytest.mark.parametrize("method", FORGETTING)
def test_a_prover_that_forgets_what_chose_an_object_is_found(method: str, monkeypatch: pytest.MonkeyPatch):
    original = getattr(Statements, method)

    def forgets(self: Statements, value: Value, *arguments: Any, **options: Any) -> None:
        original(self, replace(value, shape=frozenset()), *arguments, **options)

    monkeypatch.setattr(Statements, method, forgets)
    assert judge(FORGETTING[method]).missed
