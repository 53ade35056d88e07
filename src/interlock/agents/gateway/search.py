"""How the offline rules answer a question: by quoting the paragraph that has all words of the question that carry meaning.

A word that no file has is named instead of being ignored, so a paragraph is never shown as the answer to another question. A
question that says "not" is not answered; other small words that may change what is asked are named as not looked up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.capabilities import ModelReply, ToolCall

__all__ = ["Answer", "answer_question"]

_EMPTY_WORDS = frozenset(
    """
a about after again ago all already also am an and answer answers any anybody anyone anyone's anything are as ask asked asks at
available back base be because been before being between both but by can cannot could customer customers describe did do doc docs
document documentation documents does doing done dont during each either else ever every explain file files find folder folders for from
get gets getting give given go goes going got had handbook happen happened happening happens has have having he hear hello her here hers
hey hi him his how i id if im in into is it its ive just kind know knowledge let like long look madam made make makes many may me mean
means mention mentioned mentions might mine more most much must my need needed needs no nor not of off often ok okay on once one only or
other our ours out over own page pages per please possible question quickly read reads really regarding require required said same say
saying says see shall she should show sir so some somebody someone something still such take taken takes tell tells than thank thanks
that the their them then there these they thing things this those through til till to told too under until up upon us use used user
users using very want wants was way we well were what whats when where which while who whom whos whose why will wish with within without
wonder work works would write written yes yet you your yours
""".split()  # noqa: SIM905 - a text is easier to read than 250 quotes
)
_NEGATIONS = frozenset(
    """
no nor not never without cannot cant dont doesnt didnt isnt arent wasnt werent wont couldnt shouldnt except
""".split()  # noqa: SIM905 - as above
)
_TELLING = frozenset(
    """
all any after before between both each either every least less more most often once only other over same still till under until
""".split()  # noqa: SIM905 - as above
)
_ALIKE = (("cost", "price", "charge", "fee"), ("error", "status"), ("pay", "paid"), ("login", "sign-in"), ("mail", "e-mail"))
_MOST_WORDS = 8
_MOST_PAGES = 3
_MOST_PARAGRAPHS = 5
_SHORTEST_STEM = 3


@dataclass(frozen=True)
class Answer:
    """What a tool answered."""

    call: ToolCall
    text: str
    failed: bool


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph of a page, with the headings above it and the page's path as context."""

    page: str
    text: str
    context: str


def answer_question(question: str, answers: Sequence[Answer], *, whose: str) -> str | ModelReply:
    """Look for the words of a question, read the pages that have all of them, and quote the paragraph that has them."""
    words = _meaning(question)
    if not words:
        return "I did not find a word in that which I could look up. Ask in the words of the files, or say 'help'."
    negations = [word for word in dict.fromkeys(_tokens(question)) if word in _NEGATIONS]
    if negations:
        return f"I cannot look for what is not so ({_listed(negations)}). Ask without that, or 'search for \"{words[0]}\"'."
    if len(words) > _MOST_WORDS:
        return f"That is too much for one question: I can look up {_MOST_WORDS} words at once. Please ask for one thing at a time."
    read = [answer for answer in answers if answer.call.name == "read_file" and not answer.failed]
    if read:
        return _quote(question, words, read)
    if not answers:
        return ModelReply(calls=tuple(_searches(words)))
    return _choose_pages(words, answers, whose)


def _searches(words: Sequence[str]) -> Iterator[ToolCall]:
    yield ToolCall(id="call-0", name="glob", arguments={"pattern": "**/*"})
    patterns = dict.fromkeys(
        form for word in words for stem in _stems(word) for form in (stem, stem.capitalize(), stem.title(), stem.upper())
    )
    for number, pattern in enumerate(patterns, start=1):
        yield ToolCall(id=f"call-{number}", name="grep", arguments={"pattern": pattern})


def _choose_pages(words: Sequence[str], answers: Sequence[Answer], whose: str) -> str | ModelReply:
    """Read the pages that have every word, or say which words are missing."""
    found: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for page in () if answer.failed else re.findall(r"(?m)^/\S.*$|(?<=')/[^']*(?=')", answer.text):
            name = " ".join(_tokens(page)) if answer.call.name == "glob" else str(answer.call.arguments["pattern"]).lower()
            found[page] |= {word for word in words if _has(name, word)}
    unknown = [word for word in words if not any(word in having for having in found.values())]
    if unknown:
        which = f"the word {_listed(unknown)}" if len(unknown) == 1 else f"any of the words {_listed(unknown)}"
        return f"No {whose} has {which}, so I cannot answer that. Ask in the words of the files: 'list /' shows them."
    pages = sorted(page for page, having in found.items() if len(having) == len(words) and not page.endswith("/"))
    if not pages:
        return f"No file here has all of {_listed(words)}. Ask with fewer words, or 'search for \"{words[0]}\"'."
    return ModelReply(
        calls=tuple(
            ToolCall(id=f"page-{number}", name="read_file", arguments={"file_path": page})
            for number, page in enumerate(pages[:_MOST_PAGES])
        )
    )


def _quote(question: str, words: Sequence[str], read: Sequence[Answer]) -> str:
    """Quote the paragraph that has every word; where none has, say so and name the pages."""
    paragraphs = [paragraph for answer in read for paragraph in _paragraphs(answer)]
    full = [one for one in paragraphs if all(_has(f"{one.context} {one.text}", word) for word in words)]
    if not full:
        pages = [str(answer.call.arguments["file_path"]) for answer in read]
        return f"No paragraph here has all of {_listed(words)}. The words are in {', '.join(pages)}: 'read {pages[0]}' shows the page."
    best = max(full, key=lambda one: _closeness(one, words))
    shown = [best] if all(_has(best.text, word) for word in words) else _section(best, paragraphs)
    others = sorted({one.page for one in full} - {best.page})
    also = f"; also in {', '.join(others)}" if others else ""
    unused = [word for word in dict.fromkeys(_tokens(question)) if word in _TELLING and not all(_is_in(one.text, word) for one in shown)]
    ignored = f"; not looked up: {_listed(unused)}" if unused else ""
    quoted = "\n\n".join(one.text for one in shown)
    return f"{quoted}\n\n(from {best.page}{also}; looked up: {_listed(words)}{ignored})"


def _section(best: _Paragraph, paragraphs: Sequence[_Paragraph]) -> list[_Paragraph]:
    """Return all paragraphs below a heading that has some of the words: any of them may be meant. Of many, only the best."""
    section = [one for one in paragraphs if (one.page, one.context) == (best.page, best.context)]
    return section if len(section) <= _MOST_PARAGRAPHS else [best]


def _is_in(text: str, word: str) -> bool:
    return re.search(rf"(?i)(?<!\w){word}(?!\w)", text) is not None


def _closeness(paragraph: _Paragraph, words: Sequence[str]) -> tuple[bool, int]:
    """Rank a paragraph: prose and tables before lists of links, then by how often heading and text have the words."""
    is_list = paragraph.text.startswith("- ")
    return not is_list, sum(_has(paragraph.context, word) + _has(paragraph.text, word) for word in words)


def _paragraphs(answer: Answer) -> Iterator[_Paragraph]:
    page = str(answer.call.arguments["file_path"])
    heading = ""
    for part in re.split(r"\n\s*\n", re.sub(r"^@@.*@@\n", "", answer.text)):
        text = part.strip()
        if text.startswith("#"):
            heading, _, text = text.partition("\n")
        if text.strip():
            yield _Paragraph(page, text.strip(), f"{heading} {' '.join(_tokens(page))}")


def _meaning(question: str) -> list[str]:
    """Return the words of a question that carry meaning."""
    empty = _EMPTY_WORDS | _NEGATIONS | _TELLING
    return [word for word in dict.fromkeys(_tokens(question)) if word not in empty and (len(word) > 1 or word.isdigit())]


def _tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:[.-][^\W_]+)*", text.lower().replace("'s ", " ").replace("'", ""))


def _stems(word: str) -> tuple[str, ...]:
    """Return how words may begin that mean the same as a word."""
    return next((alike for alike in _ALIKE if _stem(word) in map(_stem, alike)), (_stem(word),))


def _stem(word: str) -> str:
    """Return a word without the usual English endings, and without the consonant that doubles before them."""
    stem = re.sub(r"(?:ations?|ings?|ed|es|s|e)$", "", word)
    stem = re.sub(r"([bdgklmnprt])\1$", r"\1", stem)
    return stem if len(stem) >= _SHORTEST_STEM else word


def _has(text: str, word: str) -> bool:
    """Tell whether a word of the text begins like the word, or like one that means the same."""
    return any(re.search(rf"(?<![^\W_]){re.escape(_stem(stem))}", text, re.IGNORECASE) for stem in _stems(word))


def _listed(words: Sequence[str]) -> str:
    quoted = [f"'{word}'" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
