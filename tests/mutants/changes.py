"""Changes of the source of an agent: each replaces one piece of text, as a person might by mistake or an attacker on purpose."""

import ast
import builtins
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

KINDS = ("rows", "grants", "writes", "bodies", "steering", "secrets", "outcomes", "arguments")
STRICT = frozenset({"steering", "secrets", "outcomes", "arguments"})
"""The kinds of which every change has to be found."""

_COMPARES: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


Placed: TypeAlias = ast.expr | ast.stmt | ast.arg | ast.keyword


@dataclass(frozen=True)
class Change:
    """A change: the file, what is replaced, and by what."""

    kind: str
    file: str
    line: int
    start: int
    end: int
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.file}:{self.line}: {self.what}"

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


class Source:
    """A module, its tree, and where its parts stand in the text."""

    def __init__(self, root: Path, path: Path) -> None:
        self.file = path.relative_to(root).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        # Offsets of a tree are in bytes of UTF-8.
        self._lines = [0]
        for line in self.text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: Placed) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def _offset(self, line: int, column: int) -> int:
        start = self._lines[line - 1]
        text = self.text[start : self._lines[line]]
        return start + len(text.encode()[:column].decode())

    def said(self, node: Placed) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def change(self, kind: str, node: Placed, text: str, what: str = "") -> Change:
        start, end = self.span(node)
        shown = " ".join(self.text[start:end].split())
        return Change(kind, self.file, node.lineno, start, end, text, what or f"'{shown[:70]}' -> '{' '.join(text.split())[:70]}'")


def changes(root: Path, agent: str) -> dict[str, list[Change]]:
    """Return every change of an agent, by kind."""
    package = root / agent
    found: dict[str, list[Change]] = {kind: [] for kind in KINDS}
    for path in sorted(package.rglob("*.py")):
        source = Source(root, path)
        if path.name == "graph.py":
            _collect(found, _rows(source))
        elif path.name == "state.py":
            _collect(found, _fields(source))
        if path.name == "nodes.py" or path.parent.name == "nodes":
            for function in (one for one in source.tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)):
                _collect(found, _body(source, function))
                if isinstance(function, ast.AsyncFunctionDef) and function.args.posonlyargs + function.args.args:
                    _collect(found, Body(source, function).changes())
    return found


def _collect(found: dict[str, list[Change]], some: Iterator[Change]) -> None:
    for one in some:
        found[one.kind].append(one)


def _rows(source: Source) -> Iterator[Change]:
    """Lead outcomes elsewhere, forbid less, take more."""
    calls = [part for part in ast.walk(source.tree) if isinstance(part, ast.Call)]
    rows = [call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "node"]
    names = {row.id for row in rows if isinstance(row, ast.Name)}
    for part in ast.walk(source.tree):
        if isinstance(part, ast.Dict):
            for key, target in zip(part.keys, part.values, strict=True):
                if isinstance(key, ast.Name) and isinstance(target, ast.Name) and (target.id in names or target.id == "END"):
                    for other in sorted((names | {"END"}) - {target.id}):
                        yield source.change("rows", target, other, f"{key.id} leads to {other} instead of {target.id}")
        elif isinstance(part, ast.keyword) and part.arg == "forbids":
            yield source.change("rows", part.value, "()")


def _fields(source: Source) -> Iterator[Change]:
    """Take a field out of an outcome, and add one to it."""
    for kind in (one for one in source.tree.body if isinstance(one, ast.ClassDef)):
        if not any(isinstance(base, ast.Name) and base.id == "Outcome" for base in kind.bases):
            continue
        declared = [one for one in kind.body if isinstance(one, ast.AnnAssign)]
        for one in declared:
            if len(declared) > 1:
                yield source.change("writes", one, "pass", f"{kind.name} does not write '{source.said(one)}'")


class Body:
    """A node's function: what it reads and is granted, and what it returns that is made of its parameters alone."""

    def __init__(self, source: Source, function: ast.AsyncFunctionDef) -> None:
        self.source, self.function = source, function
        parameters = [*function.args.posonlyargs, *function.args.args]
        self.reads = {one.arg: source.said(one.annotation) for one in parameters if one.annotation is not None}
        self.granted = {one.arg for one in function.args.kwonlyargs}
        self.returns: list[tuple[str, ast.Return, ast.Call]] = [
            (one.value.func.id, one, one.value)
            for one in ast.walk(function)
            if isinstance(one, ast.Return) and isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Name)
        ]
        known = {*self.reads, *(name for name, _, _ in self.returns), *dir(builtins)}
        self.simple = {name: one for name, one, _ in reversed(self.returns) if _names(one) <= known}

    def changes(self) -> Iterator[Change]:
        yield from self._grants()
        yield from self._steering()
        yield from self._outcomes()
        yield from self._arguments()
        yield from self._secrets()

    def _grants(self) -> Iterator[Change]:
        """Grant another capability, or one less."""
        source, name = self.source, self.function.name
        kinds = {source.said(one.annotation) for one in ast.walk(source.tree) if isinstance(one, ast.arg) and one.annotation is not None}
        only = self.function.args.kwonlyargs
        own = {source.said(one.annotation) for one in only if one.annotation is not None}
        for one in only:
            for other in sorted(kinds & {"Model", "Clock", "Ids", "Memory", "ModelBackend", "Vault", "Images"} - own):
                yield source.change("grants", one, f"{source.said(one)}, extra: {other}", f"{name} is granted {other}")
        for one in only[-1:] if len(only) > 1 else ():
            yield source.change("grants", one, "**_rest: object", f"{name} is not granted '{source.said(one)}'")

    def _steering(self) -> Iterator[Change]:
        """Let a text decide which outcome is returned."""
        if len({name for name, _, _ in self.returns}) < 2:
            return
        first = next(one for one in self.function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)))
        for text in (name for name, hint in self.reads.items() if _is_text(hint)):
            for name, one in self.simple.items():
                lines = f'if "ignore" in str({text}):\n        {self.source.said(one)}\n    {self.source.said(first)}'
                yield self.source.change("steering", first, lines, f"{self.function.name} returns {name} if '{text}' says so")

    def _outcomes(self) -> Iterator[Change]:
        """Return another outcome."""
        for made, one, _ in self.returns:
            for name, other in self.simple.items():
                if name != made:
                    what = f"{self.function.name} returns {name} instead of {made}"
                    yield self.source.change("outcomes", one, self.source.said(other), what)

    def _arguments(self) -> Iterator[Change]:
        """Pass something else to a capability."""
        calls = [one for one in ast.walk(self.function) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
        for call in calls:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id in self.granted:
                for argument in [*call.args, *(one.value for one in call.keywords)]:
                    for name in [one for one in self.reads if self.source.said(argument) != one][:3]:
                        yield self.source.change("arguments", argument, name)

    def _secrets(self) -> Iterator[Change]:
        """Write a secret to a field."""
        for secret in (name for name in self.reads if "seal" in name or "secret" in name):
            for keyword in (one for _, _, call in self.returns for one in call.keywords):
                if self.source.said(keyword.value) != secret:
                    what = f"{self.function.name} writes '{secret}' to '{keyword.arg}'"
                    yield self.source.change("secrets", keyword.value, secret, what)


def _is_text(hint: str) -> bool:
    return "str" in hint or hint not in {"bool", "int", "Present", "float"}


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _body(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    """Negate conditions, compare otherwise, change constants, leave statements out."""
    inside = [part for statement in function.body for part in ast.walk(statement)]
    texts = {id(part) for one in inside if isinstance(one, ast.JoinedStr) for part in ast.walk(one)}
    texts |= {id(one.value) for one in inside if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)}
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    for part in inside:
        if isinstance(part, ast.If | ast.IfExp | ast.While):
            yield source.change("bodies", part.test, f"not ({source.said(part.test)})")
        elif isinstance(part, ast.Compare) and len(part.ops) == 1:
            said = f"{source.said(part.left)} {_COMPARES[type(part.ops[0])]} {source.said(part.comparators[0])}"
            yield source.change("bodies", part, said)
        elif isinstance(part, ast.BoolOp):
            other = " or " if isinstance(part.op, ast.And) else " and "
            yield source.change("bodies", part, f"({other.join(source.said(one) for one in part.values)})")
        elif isinstance(part, ast.Constant) and id(part) not in texts:
            yield from _constant(source, part)
        elif isinstance(part, ast.Raise) or (isinstance(part, ast.Expr) and not isinstance(part.value, ast.Constant)):
            yield source.change("bodies", part, "pass")
        elif isinstance(part, ast.keyword) and part.arg is not None and isinstance(part.value, ast.Name):
            for name in [one for one in names if one != part.value.id][:2]:
                yield source.change("writes", part.value, name, f"'{part.arg}' is made of '{name}' instead of '{part.value.id}'")


def _constant(source: Source, part: ast.Constant) -> Iterator[Change]:
    if isinstance(part.value, bool):
        yield source.change("bodies", part, str(not part.value))
    elif isinstance(part.value, int):
        yield source.change("bodies", part, str(part.value + 1))
    elif isinstance(part.value, str):
        yield source.change("bodies", part, repr(f"{part.value}~"))


def chosen(root: Path, agent: str, amount: int, seed: int) -> list[Change]:
    """Choose changes of an agent, as many of each kind as there are, up to its share."""
    random_ = random.Random(f"{agent} {seed}")  # noqa: S311 - changes, not keys
    by_kind = {kind: random_.sample(some, len(some)) for kind, some in changes(root, agent).items()}
    found: list[Change] = []
    while len(found) < amount and any(by_kind.values()):
        found += [some.pop() for some in by_kind.values() if some]
    return found[:amount]
