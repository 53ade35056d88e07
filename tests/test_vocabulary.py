"""The source is written in the field's words: banned words and phrases, each with the reason and what to write instead."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
LAYERS = tuple(
    path.relative_to(SOURCE).as_posix()
    for package in ("interlock", "interlock_agents")
    for path in sorted((SOURCE / package).iterdir())
    if path.joinpath("__init__.py").is_file()
)
"""Packages in which no two public classes share a name."""

SHARED = {"interlock_agents/desk": {"Said"}}
"""Names that two classes of a layer share: they are part of fingerprints, and stored turns would be refused under another name."""


@dataclass(frozen=True)
class Banned:
    """A pattern that must not occur, with the reason and what to write instead."""

    pattern: str
    reason: str
    instead: str
    allowed: tuple[str, ...] = ()
    """Modules in which the word means something else, or is said to a customer."""

    def __str__(self) -> str:
        return self.pattern


PROSE = [
    Banned(
        r"\b(nobody|somebody|everybody|whoever)\b",
        "It hides who acts.",
        "name the caller, the node, the adapter or the listener",
        ("interlock_agents/desk/offline.py",),
    ),
    Banned(r"\b(anew|likewise)\b", "It is not said in technical English.", "'again', 'new', 'also', or leave it out"),
    Banned(r"\bmade anew\b|\bto be made\b", "It hides what is created.", "'created', 'a new copy'"),
    Banned(
        r"\b(is|are) (?-i:none)\b",
        "'None' is a value of Python.",
        "'is not one', 'does not exist'",
        ("interlock_agents/desk/answering.py",),
    ),
    Banned(r"\bthat there (is|are) not\b", "It is a riddle.", "'that does not exist'"),
    Banned(r"\bdragged along\b", "It is a metaphor.", "'so that __context__ does not carry it'"),
    Banned(r"\bis said of\b|\bwhat (is|was) said\b", "It hides who says what.", "'is reported', 'the message'"),
    Banned(r"\bno way leads\b|\bthe way to\b|\bon every way\b", "Routing has a word.", "'path', 'transition'"),
    Banned(r"\bgoes? on with\b|\bgone on with\b", "Durable execution has a word.", "'resume'"),
    Banned(r"\btaken again\b|\btakes? a turn\b", "Durable execution has words.", "'replayed', 'runs a turn'"),
    Banned(r"\bheld to\b|\bholds? (it|them|what) to\b", "It is a metaphor.", "'validated against', 'compared with', 'checked'"),
    Banned(r"\bis handed\b|\bare handed\b", "Functions have a word for it.", "'receives', 'is passed'"),
    Banned(r"\bpieces?\b", "Streaming has a word.", "'chunk'", ("interlock_agents/desk/",)),
    Banned(r"\bstands? (in|for|behind) (it|its|whoever|a)\b", "It is a metaphor.", "'represents', 'implements', 'proxy'"),
    Banned(r"(?<!cannot )\bTell whether\b", "A function returns.", "'Return whether'"),
    Banned(r"\bfor as long as it takes\b|\bso much time\b", "It has no measure.", "give the limit, or the number of seconds"),
    Banned(r"\bwhatever goes wrong\b", "It hides the cases.", "'a failure', with the errors"),
    Banned(r"\bask(s|ed)? (a|the) model\b", "A model is called.", "'call the model'"),
    Banned(r"\blearns?\b.{0,20}\bsecret", "A set has a word for it.", "'add_secret'"),
    Banned(r"\bledger\b", "Durable execution has a word.", "'journal'"),
    Banned(r"\btold\b|(?<!cannot )\btells? what\b", "It hides the mechanism.", "'emitted', 'reported', 'returns'"),
]
"""Patterns in docstrings, comments and messages, without regard to case except in the first letter of a sentence."""

NAMES = [
    Banned(
        r"peel|covers|detached|settle|Ending|Patience|Piece|Heard|Told|Walk|Watch|Wait|Alarm|Terms|Order",
        "It was a word of our own for something that has a name.",
        "unwrap_annotated, is_assignable, deep_copy, validate_outcome, Transition, Timer, Chunk, usage, event, run, deadline, TurnRequest",
    ),
    Banned(
        r"(?:.*_)?(ledger|telling|hearing|looker|leash|baton|lodger|patience|beginnings|misfits)(?:_.*)?",
        "It is a metaphor.",
        "journal, on_chunk, listener, prefix matcher, die_with_parent, lock, worker, timer",
    ),
    Banned(r"utils?|helpers?|manager|common|core", "It says nothing.", "the noun that the module is about"),
]
"""Whole names of modules, classes, functions and arguments."""


@functools.cache
def files() -> list[tuple[str, str]]:
    return list(_files())


def _files() -> Iterator[tuple[str, str]]:
    for folder in (SOURCE, ROOT / "benchmarks", ROOT / "scripts"):
        for module in sorted(folder.rglob("*.py")):
            name = module.relative_to(folder if folder == SOURCE else ROOT).as_posix()
            yield name, module.read_text(encoding="utf-8")


@functools.cache
def prose(source: str) -> list[tuple[int, str]]:
    """List every sentence in a string or comment of a module with its line.

    A word alone, or in backticks, is a name or a value; a string that begins with a line break is a list of words.
    """
    return [
        (token.start[0], re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "``", token.string)))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in {tokenize.COMMENT, tokenize.STRING} and " " in token.string and not token.string.startswith('"""\n')
    ]


@functools.cache
def names(source: str) -> list[tuple[int, str]]:
    return list(_names(source))


def _names(source: str) -> Iterator[tuple[int, str]]:
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield found.lineno, found.name.strip("_")
        elif isinstance(found, ast.arg):
            yield found.lineno, found.arg


@pytest.mark.parametrize("banned", PROSE, ids=str)
def test_a_banned_phrase_is_not_written(banned: Banned):
    pattern = re.compile(banned.pattern, re.IGNORECASE)
    found = [
        f"{name}:{line}: {text[:120]}"
        for name, source in files()
        if not name.startswith(banned.allowed or "-")
        for line, text in prose(source)
        if pattern.search(text)
    ]
    assert not found, f"{banned.reason} Write: {banned.instead}."


@pytest.mark.parametrize("banned", NAMES, ids=str)
def test_a_banned_name_is_not_used(banned: Banned):
    pattern = re.compile(banned.pattern)
    found = [f"{name}:{line}: {used}" for name, source in files() for line, used in names(source) if pattern.fullmatch(used)]
    found += [name for name, _ in files() if pattern.fullmatch(Path(name).stem)]
    assert not found, f"{banned.reason} Write: {banned.instead}."


@pytest.mark.parametrize("layer", LAYERS)
def test_no_two_classes_of_a_layer_share_a_name(layer: str):
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((SOURCE / layer).rglob("*.py")):
        # What `interlock new` copies is not part of the command line.
        if not {"scaffold", "minimal"} & set(path.parts):
            for found in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(found, ast.ClassDef) and not found.name.startswith("_"):
                    classes[found.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in classes.items() if len(where) > 1 and name not in SHARED.get(layer, ())} == {}


def test_no_module_is_long():
    lengths = {name: len(source.splitlines()) for name, source in files()}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_names_of_tests_say_who_does_what():
    pattern = re.compile(
        r"_(nobody|somebody|everybody|whoever|whatever|anew|told|gone_on|taken_again|held_to|handed)(_|$)|_(is|are)_none(_|$)"
    )
    modules = sorted((ROOT / "tests").rglob("test_*.py"))
    found = [f"{module.name}:{line}: {used}" for module in modules for line, used in names(module.read_text(encoding="utf-8"))]
    assert modules
    assert [name for name in found if pattern.search(name) and "test_" in name] == []


def test_titles_of_scenarios_say_what_happens():
    pattern = re.compile("|".join(banned.pattern for banned in PROSE), re.IGNORECASE)
    files_of_scenes = sorted((SOURCE / "interlock_agents").rglob("scenes.toml"))
    found = [scene["title"] for file in files_of_scenes for scene in tomllib.loads(file.read_text(encoding="utf-8"))["scene"]]
    assert found
    assert [title for title in found if pattern.search(title)] == []
