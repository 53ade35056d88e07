"""The source is written in the field's words: banned words and phrases, each with the reason and what to write instead.

SCOPE lists what is held to the rules. Add a package when its names and sentences have been rewritten.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "interlock"
ADAPTERS = ("stores", "tools", "models", "processes", "media", "verification")
SCOPE = (
    *ADAPTERS,
    "contract",
    "capabilities",
    "errors",
    "engine",
    "runtime",
    "providers",
    "cli",
    "testing",
    "agent.py",
    "app.py",
    "compiler.py",
    "discovery.py",
    "doctor.py",
    "drawing.py",
    "extras.py",
    "grant_checks.py",
    "human.py",
    "input.py",
    "installed.py",
    "logs.py",
    "replay.py",
    "reply.py",
    "runner.py",
    "secrets.py",
    "settings.py",
    "spans.py",
    "spelling.py",
    "standalone.py",
    "suspended.py",
    "system.py",
)
AGENTS = SOURCE.parent / "interlock_agents"
AGENT_SCOPE = ("sam", "analyst", "gateway", "puntini", "shop", "tour")
LAYERS = ("contract", "capabilities", "engine", "runtime", "errors", *ADAPTERS)
"""Packages in which no two classes share a name."""


TEST_SCOPE = ("stores", "tools", "models", "processes", "agents/files", "agents/media", "agents/shop", "agents/workers", "unit/testing")
"""Directories of tests whose names have been rewritten."""


@dataclass(frozen=True)
class Banned:
    """A pattern that must not occur, with the reason and what to write instead."""

    pattern: str
    reason: str
    instead: str

    def __str__(self) -> str:
        return self.pattern


PROSE = [
    Banned(r"\b(nobody|somebody|everybody|whoever)\b", "It hides who acts.", "name the caller, the node, the adapter or the listener"),
    Banned(r"\b(anew|likewise)\b", "It is not said in technical English.", "'again', 'new', 'also', or leave it out"),
    Banned(r"\bmade anew\b|\bto be made\b", "It hides what is created.", "'created', 'a new copy'"),
    Banned(r"\b(is|are) (?-i:none)\b", "'None' is a value of Python.", "'is not one', 'does not exist'"),
    Banned(r"\bthat there (is|are) not\b", "It is a riddle.", "'that does not exist'"),
    Banned(r"\bdragged along\b", "It is a metaphor.", "'so that __context__ does not carry it'"),
    Banned(r"\bis said of\b|\bwhat (is|was) said\b", "It hides who says what.", "'is reported', 'the message'"),
    Banned(r"\bno way leads\b|\bthe way to\b|\bon every way\b", "Routing has a word.", "'path', 'transition'"),
    Banned(r"\bgoes? on with\b|\bgone on with\b", "Durable execution has a word.", "'resume'"),
    Banned(r"\btaken again\b|\btakes? a turn\b", "Durable execution has words.", "'replayed', 'runs a turn'"),
    Banned(r"\bheld to\b|\bholds? (it|them|what) to\b", "It is a metaphor.", "'validated against', 'compared with', 'checked'"),
    Banned(r"\bis handed\b|\bare handed\b", "Functions have a word for it.", "'receives', 'is passed'"),
    Banned(r"\bpieces?\b", "Streaming has a word.", "'chunk'"),
    Banned(r"\bstands? (in|for|behind) (it|its|whoever|a)\b", "It is a metaphor.", "'represents', 'implements', 'proxy'"),
    Banned(r"\bTell whether\b", "A function returns.", "'Return whether'"),
    Banned(r"\bfor as long as it takes\b|\bso much time\b", "It has no measure.", "give the limit, or the number of seconds"),
    Banned(r"\bwhatever goes wrong\b", "It hides the cases.", "'a failure', with the errors"),
    Banned(r"\bask(s|ed)? (a|the) model\b", "A model is called.", "'call the model'"),
    Banned(r"\blearns?\b.{0,20}\bsecret", "A set has a word for it.", "'add_secret'"),
    Banned(r"\bledger\b", "Durable execution has a word.", "'journal'"),
    Banned(r"\btold\b|\btells? what\b", "It hides the mechanism.", "'emitted', 'reported', 'returns'"),
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


def files() -> Iterator[tuple[str, str]]:
    for path in (*(SOURCE / name for name in SCOPE), *(AGENTS / name for name in AGENT_SCOPE)):
        for module in [path] if path.is_file() else sorted(path.rglob("*.py")):
            yield str(module.relative_to(SOURCE.parent)), module.read_text(encoding="utf-8")


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield every sentence in a string or comment of a module with its line.

    A word alone, or in backticks, is a name or a value; a string that begins with a line break is a list of words.
    """
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in {tokenize.COMMENT, tokenize.STRING} and " " in token.string and not token.string.startswith('"""\n'):
            yield token.start[0], re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "``", token.string))


def names(source: str) -> Iterator[tuple[int, str]]:
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield found.lineno, found.name.strip("_")
        elif isinstance(found, ast.arg):
            yield found.lineno, found.arg


@pytest.mark.parametrize("banned", PROSE, ids=str)
def test_a_banned_phrase_is_not_written(banned: Banned):
    pattern = re.compile(banned.pattern, re.IGNORECASE)
    found = [f"{name}:{line}: {text[:120]}" for name, source in files() for line, text in prose(source) if pattern.search(text)]
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
        for found in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(found, ast.ClassDef):
                classes[found.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in classes.items() if len(where) > 1} == {}


def test_no_module_of_the_scope_is_long():
    assert {name: len(source.splitlines()) for name, source in files() if len(source.splitlines()) > 450} == {}


def test_names_of_tests_say_who_does_what():
    pattern = re.compile(r"_(nobody|somebody|everybody|whoever|whatever|anew|told|gone_on|taken_again)(_|$)")
    modules = [module for name in TEST_SCOPE for module in sorted((Path(__file__).parent / name).rglob("test_*.py"))]
    found = [f"{module.name}:{line}: {used}" for module in modules for line, used in names(module.read_text(encoding="utf-8"))]
    assert modules
    assert [name for name in found if pattern.search(name)] == []
