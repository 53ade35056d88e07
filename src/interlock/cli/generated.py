"""The files of an agent that is generated from a document. Each function returns the text of one file."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping

from interlock.cli.blueprint import Blueprint, BlueprintNode, library_methods
from interlock.contract.document import without_proofs

__all__ = ["GENERATED", "generate"]

_WIDTH = 88
_ANYTHING = "self, *args: object, **kwargs: object"
"""The parameters of a method whose signature is the library's: see the capability."""
_DOUBLE = "`interlock.testing.ScriptedModel` is one for a `Model`."
_TYPES_STEP = (
    "Give the fields in `state.py` their types. All of them are `str` now. Closed fields (`Literal`, `bool`) that routing depends on"
    " are `Control`; a `@guard` decides on anything else."
)
_ADAPTERS_STEP = "Write the methods of {own}: in `capabilities.py` what they take and return, in `adapters.py` what they do."
_OFFLINE_STEP = (
    "Write the rules that answer without a model: a subclass of `interlock.Rules` in `offline.py`, passed to the agent in"
    " `__init__.py` as `offline=`."
)

GENERATED: Mapping[str, str] = {
    "README.md": "what to do next",
    "__init__.py": "the agent: graph, providers and document together",
    "graph.py": "the rows: which node follows on which outcome",
    "state.py": "the fields and the outcomes; their types are yours to choose",
    "nodes.py": "one function for each row: write their bodies",
    "capabilities.py": "the capabilities that Interlock does not have",
    "adapters.py": "the adapters of capabilities that Interlock does not provide",
    "document.md": "the architecture document that the rows are compared with",
    "test_agent.py": "its tests",
}
"""The files of a generated agent, in the order in which they are read. Files that would be empty are left out."""


def generate(name: str, blueprint: Blueprint) -> dict[str, str]:
    """Return the files of an agent by their names."""
    writers: dict[str, Callable[[str, Blueprint], str]] = {
        "README.md": _readme,
        "__init__.py": _package,
        "graph.py": _graph,
        "state.py": _state,
        "nodes.py": _nodes,
        "test_agent.py": _tests,
        **({"capabilities.py": _capabilities} if blueprint.own else {}),
        **({"adapters.py": _adapters} if blueprint.unprovided else {}),
    }
    files = {file: write(name, blueprint) for file, write in writers.items()} | {"document.md": without_proofs(blueprint.text)}
    return {file.replace("test_agent", f"test_{name}"): files[file] for file in GENERATED if file in files}


def _readme(name: str, blueprint: Blueprint) -> str:
    own = ", ".join(f"`{capability}`" for capability in blueprint.unprovided)
    used = {capability for node in blueprint.nodes for capability in node.uses}
    doubles = f" and each `MISSING` by a test double. {_DOUBLE}" if used else "."
    steps = [
        _TYPES_STEP,
        "Write the bodies in `nodes.py`. In `state.py`, remove from each outcome the fields that it does not write.",
        *([_ADAPTERS_STEP.format(own=own)] if blueprint.unprovided else []),
        *([_OFFLINE_STEP] if "Model" in used else []),
        f"In `test_{name}.py`, remove each `xfail` mark, and replace the empty values{doubles}",
    ]
    return f"""# {name}

Generated from `document.md`. The rows agree with the document already; the bodies of the nodes are still to be written.

{"".join(f"{number}. {step}{chr(10)}" for number, step in enumerate(steps, start=1))}
A change of the rows is a change of the architecture: write it into `document.md` too.

    interlock show {name}:agent
    interlock verify {name}:agent
    python -m pytest {name}
"""


def _package(name: str, blueprint: Blueprint) -> str:
    adapters = [_adapter(capability) for capability in blueprint.unprovided]
    uses_human = any("Human" in node.uses for node in blueprint.nodes)
    reply = "dict(state)" if blueprint.gives is None else f'state.get("{blueprint.gives}")'
    own = [capability for capability in blueprint.unprovided if capability in blueprint.own]
    library = [capability for capability in blueprint.unprovided if capability not in blueprint.own]
    parts = [
        f'"""{name}: generated from its architecture document."""\n',
        "from collections.abc import Mapping",
        "from pathlib import Path",
        "from typing import Any\n",
        "from interlock import Agent, Reply",
        *([_import("interlock.capabilities", library)] if library else []),
        *(["from interlock.providers.provider import Provider"] if adapters else []),
        "",
        *([_import(".adapters", adapters)] if adapters else []),
        *([_import(".capabilities", own)] if own else []),
        "from .graph import graph\n",
        '__all__ = ["agent"]\n\n',
        "def _reply(state: Mapping[str, Any]) -> Reply:",
        '    """Make the reply of the final state."""',
        f"    return Reply(output={reply})\n\n",
        "agent = Agent(",
        f'    name="{name}",',
        '    summary="generated from its architecture document",',
        "    graphs=(graph,),",
        "    entries={None: graph},",
        "    reply=_reply,",
        *(["    has_sessions=True,", "    pauses=True,"] if uses_human else []),
        '    document=Path(__file__).with_name("document.md"),',
    ]
    if adapters:
        parts += _providers(blueprint)
    return "\n".join([*parts, ")", ""])


def _providers(blueprint: Blueprint) -> list[str]:
    made = [[f"capabilities=({one},)", f"open=lambda _: {_adapter(one)}()"] for one in blueprint.unprovided]
    calls = ", ".join(f"Provider({', '.join(arguments)})" for arguments in made)
    line = f"    providers=({calls}{',' if len(made) == 1 else ''}),"
    if len(line) <= _WIDTH:
        return [line]
    return ["    providers=(", *(part for arguments in made for part in _wrapped("        Provider(", arguments, "),")), "    ),"]


def _graph(name: str, blueprint: Blueprint) -> str:
    own = [capability for capability in blueprint.forbids if capability in blueprint.own]
    library = [capability for capability in blueprint.forbids if capability not in blueprint.own]
    lines = [
        f'"""The rows of {name}: they are the architecture."""\n',
        "from interlock import END, Graph, node",
        *([_import("interlock.capabilities", library)] if library else []),
        "",
        *([_import(".capabilities", own)] if own else []),
        _import(".nodes", [node.name for node in blueprint.nodes]),
        _import(".state", [*blueprint.outcomes, "State"]),
        "",
        "graph = Graph(",
        f'    "{blueprint.graph}",',
        "    state=State,",
        f"    entry={blueprint.entry},",
        *_wrapped("    takes=(", [f'"{field}"' for field in blueprint.takes], "),", is_tuple=True),
        *([] if blueprint.gives is None else [f'    gives="{blueprint.gives}",']),
        *(_wrapped("    forbids=(", blueprint.forbids, "),", is_tuple=True) if blueprint.forbids else []),
        "    nodes=[",
    ]
    for node in blueprint.nodes:
        goes = [f"{outcome}: {target}" for outcome, target in node.goes.items()]
        whole = f"        node({node.name}, goes={{{', '.join(goes)}}}),"
        if len(whole) <= _WIDTH:
            lines.append(whole)
        else:
            lines += ["        node(", f"            {node.name},", *_wrapped("            goes={", goes, "},"), "        ),"]
    return "\n".join([*lines, "    ],", ")", ""])


def _state(name: str, blueprint: Blueprint) -> str:
    lines = [
        f'"""The state of {name}, and the outcomes of its nodes."""\n',
        "from dataclasses import dataclass",
        "from typing import Annotated\n",
        "from interlock import Outcome, Untrusted\n\n",
        "@dataclass",
        "class State:",
        '    """The fields of a turn. A field has no value until an outcome writes it."""\n',
    ]
    # A dataclass has its fields with defaults at the end.
    for field in sorted(blueprint.fields, key=lambda field: field in blueprint.optional):
        default = " = None" if field in blueprint.optional else ""
        lines.append(f"    {field}: Annotated[{_type(field, blueprint)}, Untrusted]{default}")
    for outcome, fields in blueprint.outcomes.items():
        nodes = [node.name for node in blueprint.nodes if outcome in node.goes]
        lines += ["\n", f"class {outcome}(Outcome):", *_docstring(f"Returned by {' and '.join(nodes)}.")]
        lines += ["", *(f"    {field}: str" for field in fields)] if fields else []
    return "\n".join([*lines, ""])


def _nodes(name: str, blueprint: Blueprint) -> str:
    used = list(dict.fromkeys(capability for node in blueprint.nodes for capability in node.uses))
    own, library = [one for one in used if one in blueprint.own], [one for one in used if one not in blueprint.own]
    has_present = any(node.present for node in blueprint.nodes)
    lines = [
        f'"""The nodes of {name}, in the order of the rows."""\n',
        *(["from interlock import Present"] if has_present else []),
        *([_import("interlock.capabilities", library)] if library else []),
        *([""] if has_present or library else []),
        *([_import(".capabilities", own)] if own else []),
        _import(".state", blueprint.outcomes),
    ]
    for node in blueprint.nodes:
        lines += ["\n", *_signature(node, blueprint), *_docstring(_title(node)), *_not_written(node.name, node.duty)]
    return "\n".join([*lines, ""])


def _signature(node: BlueprintNode, blueprint: Blueprint) -> list[str]:
    reads = [f"{field}: {_type(field, blueprint)}" for field in node.reads] + [f"{field}: Present" for field in node.present]
    grants = [f"{_parameter(capability, node)}: {capability}" for capability in node.uses]
    parameters = [*reads, *(["*", *grants] if grants else [])]
    returns = " | ".join(node.goes)
    end = f") -> {returns}:"
    if len(end) <= _WIDTH:
        return _wrapped(f"async def {node.name}(", parameters, end)
    return [f"async def {node.name}(", *(f"    {one}," for one in parameters), ") -> (", *_union(node.goes), "):"]


def _union(outcomes: Iterable[str]) -> list[str]:
    first, *rest = outcomes
    return [f"    {first}", *(f"    | {outcome}" for outcome in rest)]


def _capabilities(name: str, blueprint: Blueprint) -> str:
    lines = [
        f'"""The capabilities of {name} that Interlock does not have."""\n',
        "from typing import Protocol\n",
        "from interlock import Capability",
    ]
    for capability in blueprint.own:
        users = [node.name for node in blueprint.nodes if capability in node.uses]
        purpose = f"Used by {' and '.join(users)}." if users else "Forbidden to every node."
        lines += ["\n", f"class {capability}(Capability, Protocol):", *_docstring(purpose), ""]
        lines += [
            "    async def call(self, text: str) -> str:",
            '        """Replace this by the methods that the nodes need."""',
            "        ...",
        ]
    return "\n".join([*lines, ""])


def _adapters(name: str, blueprint: Blueprint) -> str:
    lines = [f'"""The adapters of {name}: what its capabilities do."""']
    for capability in blueprint.unprovided:
        # Without the capability as its base class, whose methods it would inherit if one is misspelt here.
        lines += ["\n", f"class {_adapter(capability)}:", f'    """Provides {capability}."""']
        own = capability in blueprint.own
        signatures = {"call": "self, text: str"} if own else dict.fromkeys(library_methods(capability), _ANYTHING)
        for method, parameters in signatures.items():
            returned = "str" if own else "object"
            lines += ["", f"    async def {method}({parameters}) -> {returned}:", '        """Not written yet."""']
            lines += [f"    {line}" for line in _not_written(f"{capability}.{method}", "")]
    return "\n".join([*lines, ""])


def _tests(name: str, blueprint: Blueprint) -> str:
    has_uses = any(node.uses for node in blueprint.nodes)
    lines = [
        f'"""{name}, tested: its rows are the document\'s, and each node does its duty."""',
        "# ruff: noqa: S101 - assert is what tests do\n",
        "import asyncio",
        *(["from typing import Any, cast\n"] if has_uses else [""]),
        "import pytest",
        "from interlock.verification.verdicts import verify_agent\n",
        "from . import agent, nodes",
        _import(".state", blueprint.outcomes),
        *(["", 'MISSING = cast("Any", None)', f'"""Replace it by a test double. {_DOUBLE}"""'] if has_uses else []),
        "\n",
        "def test_the_rows_are_the_documents() -> None:",
        '    """Compare the rows with the document, and run them on both engines."""\n',
        "    async def broken() -> list[str]:",
        "        return [one.proof async for one in verify_agent(agent) if not one.holds]\n",
        "    assert asyncio.run(broken()) == []",
    ]
    for node in blueprint.nodes:
        values = ['""' for _ in node.reads] + ["True" for _ in node.present]
        values += [f"{_parameter(capability, node)}=MISSING" for capability in node.uses]
        outcomes = list(node.goes)
        lines += [
            "\n",
            '@pytest.mark.xfail(raises=NotImplementedError, strict=True, reason="not written")',
            f"def test_{node.name}() -> None:",
            *_docstring(_title(node)),
            *_wrapped(f"    running = nodes.{node.name}(", values, ")"),
            "    outcome = asyncio.run(running)",
            *_wrapped("    assert isinstance(outcome, ", [" | ".join(outcomes)], ")"),
        ]
    return "\n".join([*lines, ""])


def _title(node: BlueprintNode) -> str:
    return f"{node.name.replace('_', ' ').strip().capitalize()}."


def _type(field: str, blueprint: Blueprint) -> str:
    return "str | None" if field in blueprint.optional else "str"


def _adapter(capability: str) -> str:
    return f"Local{capability}"


def _parameter(capability: str, node: BlueprintNode) -> str:
    """Name the parameter of a capability: `ModelBackend` becomes `model_backend`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", capability).lower()
    return f"{name}_" if name in {*node.reads, *node.present} else name


def _not_written(what: str, duty: str) -> list[str]:
    """Write the body of a function that raises NotImplementedError with its duty."""
    message = f"{what}: {duty}" if duty else f"{what} is not written yet."
    parts = textwrap.wrap(message, _WIDTH - 14, break_long_words=False, break_on_hyphens=False)
    texts = [_quoted(part if part is parts[-1] else f"{part} ") for part in parts]
    if len(texts) == 1:
        return [f"    raise NotImplementedError({texts[0]})"]
    return ["    raise NotImplementedError(", *(f"        {text}" for text in texts), "    )"]


def _quoted(text: str) -> str:
    return repr(text) if '"' in text else '"' + text.replace("\\", "\\\\") + '"'


def _docstring(text: str) -> list[str]:
    clean = text.replace("\\", "\\\\").replace('"', "'")
    clean = clean[:1].upper() + clean[1:]
    if len(clean) + 10 <= _WIDTH:
        return [f'    """{clean}"""']
    first, *rest = textwrap.wrap(clean, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    return [f'    """{first}', *(f"    {line}" for line in rest), '    """']


def _import(module: str, names: Iterable[str]) -> str:
    return "\n".join(_wrapped(f"from {module} import (", sorted(names, key=_import_order), ")", plain=f"from {module} import "))


def _import_order(name: str) -> tuple[bool, bool, str]:
    """Sort names as a formatter does: constants, classes, functions."""
    return name.islower(), not name.isupper(), name.lower()


def _wrapped(start: str, items: Iterable[str], end: str, *, plain: str | None = None, is_tuple: bool = False) -> list[str]:
    """Write items in one line if it is short enough, else one in a line. `plain` starts the one line without parentheses."""
    parts = list(items)
    comma = "," if is_tuple and len(parts) == 1 else ""
    line = f"{start}{', '.join(parts)}{comma}{end}" if plain is None else f"{plain}{', '.join(parts)}"
    if len(line) <= _WIDTH or not parts:
        return [line]
    indent = " " * (len(start) - len(start.lstrip()))
    return [start.rstrip(), *(f"{indent}    {part}," if part != "*" else f"{indent}    *," for part in parts), f"{indent}{end}"]
