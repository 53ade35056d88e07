"""Random bodies of nodes: statements over texts, numbers, lists, closures, helpers, errors and capabilities, which always end."""

import random
from collections.abc import Callable

WORDS = ('"a"', '"b"', '""', '"ab"')


class Writer:
    """Writes one body.

    The names of its variables say their type: t is text, n a number, b a flag, l a list, d a dict, f a function, i an iterator.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - bodies, not keys
        self.lines: list[str] = []
        self.names: dict[str, list[str]] = {"t": ["text"], "n": ["limit"], "b": ["flag"], "l": [], "d": [], "f": [], "i": []}
        self.count = 0

    def body(self) -> str:
        if self.random.random() < 0.4:
            return self._of_objects()
        self._block(1, self.random.randint(2, 5))
        self._end(1)
        return "\n".join(self.lines)

    def _of_objects(self) -> str:
        """Write a body in which text or a choice says which object is changed, and one of the objects decides."""
        for _ in range(self.random.randint(1, 3)):
            self.random.choice([self._choose, self._choose, self._use_up])(1, self._which())
        ends = [f"{name} {test}" for name in self.names["l"] for test in ("== []", "!= ['a']")]
        ends += [f"len({name}) > 1" for name in self.names["l"]] + [f'next({name}, "z") == "b"' for name in self.names["i"]]
        self._emit(1, f"return Left() if {self.random.choice(ends)} else Right()")
        return "\n".join(self.lines)

    def _which(self) -> str:
        return self.random.choice(['text == "a"', "is_left(text)", "len(text) > 1", "note == text", "flag", 'choice == "a"'])

    def _new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def _emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _any(self, kind: str) -> str:
        return self.random.choice(self.names[kind]) if self.names[kind] else {"l": "[]", "d": "{}"}.get(kind, "0")

    # Expressions

    def text(self, depth: int = 2) -> str:
        options: list[Callable[[], str]] = [
            lambda: self.random.choice(WORDS),
            lambda: self._any("t"),
            lambda: 'note or "x"',
            lambda: "choice",
        ]
        if depth:
            options += [
                lambda: f"{self.text(depth - 1)} + {self.text(depth - 1)}",
                lambda: f"({self.text(depth - 1)} if {self.flag(depth - 1)} else {self.text(depth - 1)})",
                lambda: f'f"{{{self._any("t")}}}-"',
                lambda: f"shout({self.text(depth - 1)})",
                lambda: f"next(iter(items), {self.text(0)})",
                lambda: f"Box(text={self.text(depth - 1)}, kind=choice).{self.random.choice(['text', 'kind'])}",
                lambda: f'"".join({self._any("l")})' if self.names["l"] else '"z"',
                lambda: f'next({self._any("i")}, "z")' if self.names["i"] else '"y"',
            ]
        return self.random.choice(options)()

    def number(self, depth: int = 2) -> str:
        options: list[Callable[[], str]] = [lambda: str(self.random.randint(0, 3)), lambda: self._any("n")]
        if depth:
            options += [
                lambda: f"len({self.text(depth - 1)})",
                lambda: f"({self.number(depth - 1)} + {self.number(depth - 1)}) % 5",
                lambda: f"len({self._any('l')})",
                lambda: f"len({self._any('d')})",
                lambda: f"len([one for one in items if {self.flag(0)} or one])",
                lambda: f"sum(1 for one in items if one == {self.text(0)})",
            ]
        return self.random.choice(options)()

    def flag(self, depth: int = 2) -> str:
        options: list[Callable[[], str]] = [
            lambda: self._any("b"),
            lambda: f"choice == {self.random.choice(WORDS)}",
            lambda: "note is None",
            lambda: "bool(items)",
        ]
        if depth:
            options += [
                lambda: f"{self.text(depth - 1)} == {self.text(depth - 1)}",
                lambda: f"{self.number(depth - 1)} > {self.number(depth - 1)}",
                lambda: f"not {self.flag(depth - 1)}",
                lambda: f"({self.flag(depth - 1)} and {self.flag(depth - 1)})",
                lambda: f"({self.flag(depth - 1)} or {self.flag(depth - 1)})",
                lambda: f"bool({self._any('l')})",
                lambda: f"{self.text(depth - 1)} in {self._any('d')}",
                lambda: f"is_left({self.text(depth - 1)})",
                lambda: f"{self._any('f')}()" if self.names["f"] else "flag",
                lambda: f"any(one == {self.text(0)} for one in {self._any('l')})",
            ]
        return f"({self.random.choice(options)()})"

    # Statements

    def _block(self, depth: int, size: int) -> None:
        known = {kind: list(names) for kind, names in self.names.items()}
        for _ in range(size):
            self._statement(depth)
        if depth > 1:
            self.names = known

    def _statement(self, depth: int) -> None:
        simple = [self._assign, self._assign, self._change, self._make, self._again, self._choose, self._use_up]
        nested = [self._if, self._if, self._for, self._while, self._try, self._closure, self._call, self._return_if]
        self.random.choice(simple + (nested if depth < 4 else []))(depth)

    def _assign(self, depth: int) -> None:
        kind = self.random.choice("tnb")
        made = {"t": self.text, "n": self.number, "b": self.flag}[kind]()
        self._emit(depth, f"{(name := self._new(kind))} = {made}")
        self.names[kind].append(name)

    def _again(self, depth: int) -> None:
        kind = self.random.choice("tnb")
        names = [name for name in self.names[kind] if name[1:].isdigit()]
        if names:
            made = {"t": self.text, "n": self.number, "b": self.flag}[kind]()
            self._emit(depth, f"{self.random.choice(names)} = {made}")
        else:
            self._assign(depth)

    def _make(self, depth: int) -> None:
        kind = self.random.choice("lld")
        same = self.names[kind]
        made = self.random.choice(
            [*(same[:1]), "[]", f"[{self.text(1)}]", "list(items)"] if kind == "l" else [*(same[:1]), "{}", '{"a": "b"}']
        )
        if kind == "l" and len(same) > 1 and self.random.random() < 0.5:
            made = f"{same[0]} or {same[1]}" if self.random.random() < 0.5 else f"{same[0]} if {self.flag(1)} else {same[1]}"
        self._emit(depth, f"{(name := self._new(kind))} = {made}")
        self.names[kind].append(name)

    def _change(self, depth: int) -> None:
        if self.names["l"] and self.random.random() < 0.6:
            self._emit(depth, self.random.choice([f"{self._any('l')}.append({self.text(1)})", f"fill({self._any('l')}, {self.text(1)})"]))
        elif self.names["d"]:
            self._emit(depth, f"{self._any('d')}[{self.text(1)}] = {self.text(1)}")
        else:
            self._make(depth)

    def _choose(self, depth: int, which: str = "") -> None:
        """Choose one of two lists, and change the one that was chosen. `which` says which one."""
        one, other = self._two_lists(depth)
        name, test, word = self._new("l"), which or self.flag(), '"a"' if which else self.text(1)
        either, index = f"{one} if {test} else {other}", f"[bool({which})]" if which else f"[{self.number(1)} % 2]"
        forms = [
            f"{name} = {either}",
            f"{name} = [{one}, {other}]{index}",
            f"{name} = ({one}, {other}){index}",
            f"{name} = {{True: {one}}}.get({test}, {other})",
            f"{name} = next(iter([{one}, {other}] if {test} else [{other}, {one}]))",
            f"{name}, {self._new('l')} = ({one}, {other}) if {test} else ({other}, {one})",
            f"{name}, *_ = [{one}, {other}] if {test} else [{other}, {one}]",
            f"{name} = Box(text={either}).text",
            f"{name} = (lambda own={either}: own)()",
            f"{name} = [row for row in ({one}, {other}) if {test} or row is {other}][0]",
            f"{name} = max({one}, {other}, key=lambda row: len(row) if {test} else -len(row))",
            f"for {name} in ({one}, {other}):\n    if {test}:\n        break",
            f"{name} = {one}\nif {test}:\n    {name} = {other}",
            f"{name} = {one}\ntry:\n    check('a' if {test} else 'b')\nexcept LookupError:\n    {name} = {other}",
            f"def {name}(own={either}):\n    own.append({word})\n{name}()\n{name} = {one}",
            f"[{one}.append, {other}.append]{index}({word})\n{name} = {other}",
            f"[lambda own=row: own.append({word}) for row in ({one}, {other})]{index}()\n{name} = {one}",
        ]
        for line in self.random.choice(forms).splitlines():
            self._emit(depth, line)
        self._emit(
            depth, self.random.choice([f'{name}.append("a")', f"{name} += [{word}]", f'fill({name}, "a")', f"{name}.clear()", "pass"])
        )
        self.names["l"].append(name)

    def _two_lists(self, depth: int) -> tuple[str, str]:
        """Return two lists: of those there are, two new ones, or two rows of one expression."""
        lists = self.names["l"]
        if len(lists) > 1 and self.random.random() < 0.4:
            return self.random.choice(lists), self.random.choice(lists)
        one, other = self._new("l"), self._new("l")
        made = ["[], []", "[[] for _ in range(2)]", '{"a": [], "b": []}.values()', 'list(items), ["a"]', '([*row] for row in ("", "a"))']
        self._emit(depth, f"{one}, {other} = {self.random.choice(made)}")
        lists += [one, other]
        return one, other

    def _use_up(self, depth: int, which: str = "") -> None:
        """Take something from one of two iterators."""
        names = self.names["i"]
        while len(names) < 2:
            self._emit(depth, f'{(name := self._new("i"))} = iter(("a", "b", "ab"))')
            names.append(name)
        chosen = f"({self.random.choice(names)} if {which or self.flag()} else {self.random.choice(names)})"
        forms = [
            f"for _ in {chosen}:\n    break",
            f"next({chosen}, None)",
            f"[*{chosen}]",
            f'"b" in {chosen}',
            f"next(zip({chosen}, (1,)), None)",
        ]
        for line in self.random.choice(forms).splitlines():
            self._emit(depth, line)

    def _if(self, depth: int) -> None:
        self._emit(depth, f"if {self.flag()}:")
        self._block(depth + 1, self.random.randint(1, 2))
        if self.random.random() < 0.5:
            self._emit(depth, "else:")
            self._block(depth + 1, self.random.randint(1, 2))

    def _for(self, depth: int) -> None:
        name = self._new("t")
        over = self.random.choice(["items", '("a", "b", "ab")', f"list({self._any('l')})", f"list({self._any('d')})"])
        self._emit(depth, f"for {name} in {over}:")
        self.names["t"].append(name)
        self._block(depth + 1, self.random.randint(1, 2))
        if self.random.random() < 0.4:
            self._emit(depth + 1, f"if {self.flag(1)}:")
            self._emit(depth + 2, self.random.choice(["break", "continue"]))
            self._block(depth + 1, 1)
        self.names["t"].remove(name)

    def _while(self, depth: int) -> None:
        name = self._new("n")
        self._emit(depth, f"{name} = 0")
        self._emit(depth, f"while {name} < 3 and {self.flag(1)}:")
        self._emit(depth + 1, f"{name} += 1")
        self._block(depth + 1, self.random.randint(1, 2))
        self.names["n"].append(name)

    def _try(self, depth: int) -> None:
        self._emit(depth, "try:")
        self._block(depth + 1, 1)
        raising = ["check({})", "int({})", "[0][len({})]", "raise_if({})"]
        self._emit(depth + 1, self.random.choice(raising).format(self.text(1)))
        self._block(depth + 1, 1)
        self._emit(depth, f"except {self.random.choice(['ValueError', 'LookupError', '(ValueError, LookupError)', 'Exception'])}:")
        self._block(depth + 1, self.random.randint(1, 2))

    def _closure(self, depth: int) -> None:
        name = self._new("f")
        if self.random.random() < 0.5:
            self._emit(depth, f"{name} = lambda: {self.flag(1)}")
        else:
            self._emit(depth, f"def {name}():")
            if self.names["l"]:
                self._emit(depth + 1, f"{self._any('l')}.append({self.text(1)})")
            self._emit(depth + 1, f"return {self.flag(1)}")
        self.names["f"].append(name)

    def _call(self, depth: int) -> None:
        name = self._new("t")
        handle = self.random.choice(["oracle", "other", f"(oracle if {self.flag(1)} else other)"])
        self._emit(depth, f"{name} = (await {handle}.ask({self.text(1)})).{self.random.choice(['kind', 'words'])}")
        self.names["t"].append(name)

    def _return_if(self, depth: int) -> None:
        self._emit(depth, f"if {self.flag()}:")
        self._end(depth + 1)

    def _end(self, depth: int) -> None:
        forms = [f"return Left() if {self.flag()} else Right()", "return Left()", "return Right()", f"return chosen({self.text(1)})"]
        forms += [f"return (Left if {self.flag(1)} else Right)()"]
        self._emit(depth, self.random.choice(forms if depth > 1 else forms[:1]))
