"""Private APIs of other libraries that Interlock uses, each with the reason, and source rules that keep the list complete.

A private API can change in any release of its library. When one goes away, the test of that line fails here, and says why it was
needed, instead of a turn failing somewhere else.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema

SOURCE = Path(__file__).parents[2] / "src" / "interlock"


@dataclass(frozen=True)
class PrivateApi:
    """One private name of another library, the only modules that use it, and why there is no public one."""

    module: str
    name: str
    used_in: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


APIS = [
    PrivateApi(
        "langgraph._internal._constants",
        name,
        ("engine/interrupts.py",),
        "A node that pauses stores its calls beside LangGraph's checkpoint; where that is, is only in these keys of the configuration.",
    )
    for name in ("CONFIG_KEY_CHECKPOINT_MAP", "CONFIG_KEY_CHECKPOINT_NS", "CONFIG_KEY_CHECKPOINTER", "CONFIG_KEY_TASK_ID")
] + [
    PrivateApi(
        "langgraph._internal._typing",
        "MISSING",
        ("engine/threads.py",),
        "The value of a channel that was never written has no public name.",
    ),
    PrivateApi(
        "langgraph.pregel._write",
        "ChannelWrite",
        ("engine/threads.py",),
        "A compiled graph writes its input with it; a graph that restarts a thread has to write more than the input.",
    ),
    PrivateApi(
        "langgraph.pregel._write",
        "ChannelWriteTupleEntry",
        ("engine/threads.py",),
        "It is the part of a ChannelWrite that says which values are written.",
    ),
    PrivateApi(
        "langgraph.checkpoint.serde.types",
        "_DeltaSnapshot",
        ("engine/serializer.py",),
        "LangGraph puts it into checkpoints, so a serializer with a closed list of classes has to know it.",
    ),
]


@pytest.mark.parametrize("api", APIS, ids=str)
def test_a_private_name_still_exists_and_is_used_where_the_table_says(api: PrivateApi):
    assert hasattr(importlib.import_module(api.module), api.name), f"{api} is gone. It was used because: {api.reason}"
    for path in api.used_in:
        assert re.search(rf"\b{api.name}\b", (SOURCE / path).read_text(encoding="utf-8")), f"{path} no longer uses {api}: remove the line"


def test_pydantic_core_still_compiles_a_schema_without_prebuilt_parts():
    """contract/schema.py passes `_use_prebuilt=False`: a model's own prebuilt validator would replace the rewritten schema."""

    class Inner(BaseModel):
        number: int

    schema: Any = core_schema.model_schema(
        Inner, core_schema.model_fields_schema({"number": core_schema.model_field(core_schema.str_schema())})
    )
    assert SchemaValidator(schema, _use_prebuilt=False).validate_python({"number": "text"}).__dict__ == {"number": "text"}
    assert SchemaSerializer(schema, _use_prebuilt=False).to_json(Inner(number=5), warnings=False) == b'{"number":5}'


def test_pydantic_models_still_keep_their_state_in_the_slots_that_a_copy_sets():
    """contract/copying.py creates models without validation, so it sets their dictionary and these slots itself."""
    assert set(BaseModel.__slots__) == {"__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"}


def test_pydantic_still_tells_the_validators_of_a_class():
    """contract/rules.py refuses a state with validators of its own, which would not run when one field is written."""
    found = BaseModel.__pydantic_decorators__
    assert all(hasattr(found, name) for name in ("field_validators", "model_validators", "validators", "root_validators"))


def test_the_firestore_client_still_has_the_connection_that_is_closed():
    """adapters/stores/firestore_calls.py closes `_firestore_api`: the asynchronous client has no method that closes it."""
    from google.cloud.firestore import AsyncClient  # noqa: PLC0415 - it takes a second, and only this test needs it

    assert hasattr(AsyncClient, "_firestore_api")


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text(encoding="utf-8"))


def private_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Find names that are imported from private modules of other libraries, or are private themselves."""
    for found in ast.walk(tree):
        if isinstance(found, ast.ImportFrom) and found.module and not found.module.startswith(("interlock", "__future__")):
            is_private = any(part.startswith("_") for part in found.module.split("."))
            yield from ((found.module, one.name) for one in found.names if is_private or one.name.startswith("_"))
        elif isinstance(found, ast.Import):
            yield from ((one.name, "") for one in found.names if any(part.startswith("_") for part in one.name.split(".")))


def test_every_private_import_is_in_the_table():
    listed = {(path, api.module, api.name) for api in APIS for path in api.used_in}
    used = {(path, module, name) for path, tree in modules() for module, name in private_imports(tree)}
    assert used == listed


def calls(tree: ast.Module, names: set[str]) -> list[str]:
    return [
        found.func.id
        for found in ast.walk(tree)
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id in names
    ]


def test_no_module_runs_code_from_strings():
    assert [(path, found) for path, tree in modules() if (found := calls(tree, {"exec", "eval", "compile", "__import__"}))] == []


def test_only_the_schema_module_compiles_schemas_of_pydantic_core():
    """Everything else uses the functions of contract/schema.py, so that strictness and conversion are decided in one place."""
    owned = {"SchemaValidator", "SchemaSerializer", "CoreConfig", "core_schema", "SchemaError"}
    users = {
        path
        for path, tree in modules()
        for found in ast.walk(tree)
        if isinstance(found, ast.ImportFrom) and found.module == "pydantic_core" and owned & {one.name for one in found.names}
    }
    assert users == {"contract/schema.py"}
    assert "_use_prebuilt" in (SOURCE / "contract" / "schema.py").read_text(encoding="utf-8")
    assert [path for path, _ in modules() if path != "contract/schema.py" and "_use_prebuilt" in (SOURCE / path).read_text("utf-8")] == []
