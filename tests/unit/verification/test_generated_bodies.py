"""Generated bodies are run for real, in pairs that differ in text alone: where text steers a run, the prover has to say so."""

import copy
import linecache
import os
import random
import types
from collections.abc import Mapping
from typing import Any

from interlock.contract.node import Node
from interlock.verification.flows import NodeFlow
from interlock.verification.nodes import read_node
from interlock.verification.sources import Level
from tests.unit.verification.generated import Writer
from tests.unit.verification.reading import HEAD, PARAMETERS

AMOUNT = int(os.environ.get("INTERLOCK_TEST_BODIES", "2000"))
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


def test_no_body_that_text_steers_is_called_independent():
    steered = unread = independent = 0
    missed: list[str] = []
    for batch in range(0, AMOUNT, 50):
        seeds = range(batch, min(batch + 50, AMOUNT))
        bodies = [Writer(seed).body() for seed in seeds]
        module, steps = built(bodies, f"generated_{batch}")
        for seed, body, step in zip(seeds, bodies, steps, strict=True):
            verdict = decides_on_text(step, module)
            unread += verdict is None
            if verdict is not False:
                continue
            independent += 1
            random_ = random.Random(seed)  # noqa: S311 - inputs, not keys
            for _ in range(12):
                first = inputs_of(random_)
                kind = random_.choice("ab")
                before = run(step, module, first, kind, random_.choice(TEXTS))
                for _ in range(6):
                    after = run(step, module, inputs_of(random_, first), kind, random_.choice(TEXTS))
                    if None not in (before, after) and before != after:
                        steered += 1
                        missed.append(f"seed {seed}:\n{body}")
                        break
                if missed and missed[-1].startswith(f"seed {seed}:"):
                    break
    assert missed == [], "\n\n".join(missed[:3])
    # The test has to have something to say: bodies that are independent, and few that are not read.
    assert independent > AMOUNT // 20
    assert unread < AMOUNT // 10
