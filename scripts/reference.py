"""The API reference: every public name with its signature and its docstring, read from the source."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path

WIDTH = 100
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference(module: str) -> str:
    """Describe every public name of a module or package, in alphabetical order."""
    names = sorted(public_names(tree(module)), key=str.lower)
    return "\n".join(f"### `{name}`\n\n{described(name, *found(module, name))}" for name in names)


def options(_: str) -> str:
    """Write a table of the arguments of `Agent`."""
    (agent,) = [one for one in tree("interlock.agent").body if isinstance(one, ast.ClassDef) and one.name == "Agent"]
    rows = [
        f"| `{name}` | {cell(ast.unparse(field.annotation))} | {cell(default(field.value)) if field.value else 'required'} | {doc} |"
        for name, field, doc in fields(agent)
    ]
    return "\n".join(["| argument | type | default | what it is |", "| --- | --- | --- | --- |", *rows, ""])


def tree(module: str) -> ast.Module:
    """Parse a module or package of the library."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise SystemExit(f"There is no module '{module}'.")
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def public_names(module: ast.Module) -> list[str]:
    """Read `__all__`."""
    for one in module.body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id == "__all__":
            return ast.literal_eval(one.value)
    return []


def found(module: str, name: str) -> tuple[Definition, str]:
    """Find the definition of a name and its docstring, through the modules that import it."""
    body = tree(module).body
    for number, one in enumerate(body):
        if isinstance(one, ast.ImportFrom) and one.module is not None:
            imported = [alias.name for alias in one.names]
            if name in imported or (imported == ["*"] and name in public_names(tree(one.module))):
                return found(one.module, name)
        if isinstance(one, ast.ClassDef | Function) and one.name == name:
            return one, ast.get_docstring(one) or ""
        if isinstance(one, ast.Assign | ast.AnnAssign) and name in assigned(one):
            return one, docstring_after(body, number)
    raise SystemExit(f"'{module}' does not define '{name}'.")


def assigned(one: ast.Assign | ast.AnnAssign) -> list[str]:
    """Return the names that a statement assigns to."""
    targets = one.targets if isinstance(one, ast.Assign) else [one.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def docstring_after(body: list[ast.stmt], number: int) -> str:
    """Return the string that follows an assignment."""
    following = body[number + 1] if number + 1 < len(body) else None
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant) and isinstance(following.value.value, str):
        return inspect.cleandoc(following.value.value)
    return ""


def described(name: str, one: Definition, doc: str) -> str:
    """Describe a name: its signature, its docstring, and for a class its fields, properties and methods."""
    if isinstance(one, Function):
        return f"{signature(one)}\n{doc}\n"
    if not isinstance(one, ast.ClassDef):
        return f"{doc}\n"
    parts = [f"{constructor(one)}{doc}\n"]
    members = [f"- `{field}`: {words}" for field, _, words in fields(one) if words]
    members += [f"- `{method.name}`: {first(method)}" for method in methods(one) if is_property(method) and first(method)]
    if members:
        parts.append("\n".join(members) + "\n")
    parts += [
        f"#### `{name}.{method.name}`\n\n{signature(method)}\n{ast.get_docstring(method) or ''}".rstrip() + "\n"
        for method in methods(one)
        if not is_property(method)
    ]
    return "\n".join(parts)


def constructor(one: ast.ClassDef) -> str:
    """Write the signature of a class: of its `__init__`, or the fields of a dataclass."""
    for method in one.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            return f"{signature(method, one.name)}\n"
    if not any("dataclass" in ast.unparse(decorator) for decorator in one.decorator_list):
        return ""
    given = [
        f"{name}: {ast.unparse(field.annotation)}{f' = {default(field.value)}' if field.value else ''}" for name, field, _ in fields(one)
    ]
    return f"{block(one.name, ['*', *given], '')}\n"


def default(value: ast.expr) -> str:
    """Write the default of a field; the factory of an empty container is that container."""
    factories = [given.value for given in value.keywords if given.arg == "default_factory"] if isinstance(value, ast.Call) else []
    made = ast.unparse(factories[0]) if factories else ""
    containers = {"dict": "{}", "tuple": "()", "list": "[]"}
    return containers.get(made.partition("[")[0], f"{made}()") if made else ast.unparse(value)


def fields(one: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign, str]]:
    """Yield the annotated attributes of a class, each with its docstring on one line."""
    for number, field in enumerate(one.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not field.target.id.startswith("_"):
            yield field.target.id, field, " ".join(docstring_after(one.body, number).split())


def methods(one: ast.ClassDef) -> list[Function]:
    """List the public methods and properties that a class defines."""
    return [method for method in one.body if isinstance(method, Function) and not method.name.startswith("_")]


def is_property(method: Function) -> bool:
    """Return whether a method is a property."""
    return any("property" in ast.unparse(decorator) for decorator in method.decorator_list)


def first(method: Function) -> str:
    """Return the first paragraph of a docstring on one line."""
    return (ast.get_docstring(method) or "").partition("\n\n")[0].replace("\n", " ")


def signature(method: Function, name: str | None = None) -> str:
    """Write the signature of a function or method without `self`."""
    arguments = method.args
    given = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(given) - len(arguments.defaults)) + [*arguments.defaults]
    parts = [written(one, value) for one, value in zip(given, defaults, strict=True) if one.arg not in {"self", "cls"}]
    if arguments.vararg is not None:
        parts.append(f"*{written(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [written(one, value) for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg is not None:
        parts.append(f"**{written(arguments.kwarg, None)}")
    prefix = "async " if isinstance(method, ast.AsyncFunctionDef) else ""
    returned = f" -> {ast.unparse(method.returns)}" if method.returns is not None and name is None else ""
    return block(f"{prefix}{name or method.name}", parts, returned)


def written(one: ast.arg, value: ast.expr | None) -> str:
    """Write a parameter with its annotation and its default."""
    hint = "" if one.annotation is None else f": {ast.unparse(one.annotation)}"
    return f"{one.arg}{hint}" if value is None else f"{one.arg}{hint} = {ast.unparse(value)}"


def block(name: str, parts: list[str], returned: str) -> str:
    """Write a signature as code, on one line where it fits."""
    line = f"{name}({', '.join(parts)}){returned}"
    if len(line) > WIDTH:
        line = f"{name}(\n{textwrap.indent(''.join(f'{part},{chr(10)}' for part in parts), '    ')}){returned}"
    return f"```py\n{line}\n```\n"


def cell(code: str) -> str:
    """Write code in a cell of a table."""
    return f"`{code.replace('|', chr(92) + '|')}`"
