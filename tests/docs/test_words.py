"""The pages are written in the words of the field. What is banned in docstrings and messages is banned here too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_vocabulary import PROSE, Banned

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(page for name in ("README.md", "document.md") for page in ROOT.glob(f"src/interlock*/**/{name}")),
]
CODE = re.compile(r"^(`{3,}).*?^\1$|``.*?``|`[^`\n]*`", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end generated -->$", re.MULTILINE | re.DOTALL)
DECISION = re.compile(r"\[[^\]]+\]\((?:[^)]*decisions/|\d{4}-)[^)]*\)")
"""A decision record keeps its title, and its file its name."""

PHRASES = [
    *PROSE,
    Banned(r"\bmend(s|ed|ing)?\b", "Software is not mended.", "'fix', 'repair', 'correct'"),
    Banned(r"\bin the place of\b|\bin its place\b", "It is long.", "'instead of', 'replaces'"),
    Banned(r"\bgo(es|ne)? on\b|\bgoing on\b|\bwent on\b", "Durable execution has words.", "'continues', 'resumes'"),
    Banned(r"\bturns? (is|are|was|were) taken\b|\btak(e|ing|en) (one|a|the|some) turns?\b", "A turn is run.", "'run a turn'"),
    Banned(r"\bfor ever\b|\bto begin with\b", "It is not said in technical English.", "'repeatedly', 'without a limit', 'at first'"),
    Banned(r"\bstands? (beside|against|there|where|for|behind|in)\b", "It is a metaphor.", "'is', 'represents', 'replaces', 'provides'"),
    Banned(r"\bwalk(s|ed|ing)?\b(?!-through)", "An engine runs a graph.", "'run', 'traverse'"),
    Banned(r"(?<!there )\b(is|are|was|were) no (?!longer|more)", "It is a Germanism.", "'is not a', 'has no'"),
    Banned(r"\bwithout a word\b|\bby and by\b|\bof its own accord\b", "It is a figure of speech.", "'silently', 'automatically'"),
    Banned(r"\bwhat (is|was) (the matter|wrong with it)\b", "It is a riddle.", "'the reason', 'the error'"),
    Banned(r"\bhands? (it|them|out|over)\b|\bhanded (to|on|out|over)\b", "Functions have a word for it.", "'passes', 'returns'"),
    Banned(r"\bword for word\b", "It is a figure of speech.", "'unchanged', 'in full'"),
]


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a page with their line, without code, generated parts and titles of decisions."""
    text = page.read_text(encoding="utf-8")
    for pattern in (GENERATED, CODE, DECISION):
        text = pattern.sub(lambda found: "\n" * found[0].count("\n") or "CODE", text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\|)|\n(?=- ))", text):
        if paragraph.strip():
            yield line, re.sub(r"\s+", " ", paragraph)
        line += paragraph.count("\n")


@pytest.mark.parametrize("banned", PHRASES, ids=str)
def test_a_banned_phrase_is_not_on_a_page(banned: Banned):
    pattern = re.compile(banned.pattern, re.IGNORECASE)
    found = [
        f"{page.relative_to(ROOT)}:{line}: {text[max(0, hit.start() - 40) : hit.end() + 40]}"
        for page in PAGES
        for line, text in prose(page)
        for hit in pattern.finditer(text)
    ]
    assert not found, f"{banned.reason} Write: {banned.instead}.\n" + "\n".join(found)


def test_phrases_are_found_in_prose_and_not_in_code(tmp_path: Path):
    page = tmp_path / "page.md"
    code = "One `nobody` two.\n\n```text\nnobody\n```"
    page.write_text(f"# Title\n\n{code}\n\n[Nobody](../decisions/1.md)\n\n| nobody | here |\n", encoding="utf-8")
    assert [(line, text.strip()) for line, text in prose(page) if "nobody" in text.lower()] == [(11, "| nobody | here |")]
