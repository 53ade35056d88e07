"""The annotations that the proofs need are few: they are what a person has to get right."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[3] / "src"
FOLDERS = (*(f"interlock_agents/{name}" for name in ("sam", "desk", "analyst", "gateway", "puntini")), "interlock/capabilities")
MARKS = {"asks", "effect", "guard", "keyed"}
LABELS = {"Trusted", "Secret"}


def annotations(tree: ast.Module) -> Iterator[str]:
    """Return what a person has annotated for the proofs in a module.

    That is each mark of a function or of a capability's method (`@guard`, `@asks`, `@effect`, `@keyed`), and each label of a result or
    of a parameter of a function (`Annotated[str, Secret]`). Labels of state fields are no annotations: every field has one.
    """
    for function in (part for part in ast.walk(tree) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)):
        for decorator in function.decorator_list:
            name = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(name, ast.Name) and name.id in MARKS:
                yield name.id
        arguments = function.args
        hints = [one.annotation for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        for hint in [function.returns, *hints]:
            for part in ast.walk(hint) if hint is not None else ():
                if isinstance(part, ast.Name) and part.id in LABELS:
                    yield part.id


def test_the_five_agents_and_the_capabilities_that_they_share_have_at_most_fifty_annotations():
    found = Counter[str]()
    for folder in FOLDERS:
        for path in sorted((SOURCES / folder).rglob("*.py")):
            found.update(annotations(ast.parse(path.read_text(encoding="utf-8"))))
    assert found["guard"] >= 10
    assert sum(found.values()) <= 50, dict(found)
