"""Question answering of the offline rules: quote the paragraph that contains every content word of the question.

A word that no file contains is named in the answer instead of being ignored, so a paragraph is never shown as the answer to
another question. A question with a negation is not answered. Other function words that may change the meaning of the question
are named as not looked up.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.capabilities import ModelReply, ToolCall
from interlock_agents.gateway.phrasal_verbs import display, join_phrasal_verbs, phrasal_verb_pattern, search_terms, with_particle

__all__ = ["Answer", "answer_question", "is_content_word"]

_FUNCTION_WORDS = frozenset(
    """
a about after again ago all already also am an and answer answers any anybody anyone anyone's anything are as ask asked asks at
available back base be because been before being between both but by can cannot could customer customers describe did do doc docs
document documentation documents does doing done dont during each either else ever every explain file files find folder folders for from
get gets getting give given go goes going got had handbook happen happened happening happens has have having he hear hello help her here
hers hey hi him his how i id if im in into is it its ive just kind know knowledge let like look madam made make makes many may me mean
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
_QUALIFIERS = frozenset(
    """
all any after before between both each either every least less more most often once one only other over same still that these this those
till under until
""".split()  # noqa: SIM905 - as above
)
_SYNONYMS = (
    ("fee", "charge", "cost", "price"),
    ("error", "status"),
    ("pay", "paid"),
    ("log-in", "sign-in"),
    ("log-out", "sign-out"),
    ("mail", "e-mail"),
)
_HOW = re.compile(r"(?i)\b(?:how|as) (?:long|many|often|far)\b")
_COMPOUND = re.compile(r"\b(\w+ing) (?=(\w+))")  # a text about opening something within 24 hours does not have "opening hours"
_NUMBER = re.compile(r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|once|twice)\b")
_ITEM = re.compile(r"(?m)^(?=\d+\. |- )")
_DATED = re.compile(r"(?i)\b(up to|out of) date\b")
_HOW_MUCH = re.compile(r"(?i)\bhow (?:much|expensive)\b(?! (?:time|longer|more|is (?:left|there)))")
_PAY_FOR = re.compile(r"(?i)\b(what|how much)\b(.*)\bpay for\b")
_MONTH = re.compile(r"\b(?:in|from|of|until|since|by|for) May\b")
_MATCH = re.compile(r"(?m)^(/.*):$|^\s+\d+: (.*)$")
_MAX_WORDS = 8
_MAX_PAGES = 3
_MAX_PARAGRAPHS = 5
_SUFFIXES = (("ations", 4), ("ation", 4), ("ings", 3), ("ing", 3), ("ed", 3), ("es", 4), ("s", 3), ("e", 4))
"""Suffixes, each with the number of letters that must remain: "notes" is not a form of "not"."""

_FORMS = "e|s|es|ations?|ments?|als?|ly|y|ies"


@dataclass(frozen=True)
class Answer:
    """A tool call with its result."""

    call: ToolCall
    text: str
    failed: bool


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph of a page, with the heading above it."""

    page: str
    text: str
    heading: str

    @property
    def context(self) -> str:
        return f"{self.heading} {' '.join(_tokens(self.page))}"


def answer_question(question: str, answers: Sequence[Answer], *, whose: str) -> str | ModelReply:
    """Return the next step: search for the words of a question, read the pages that have all of them, or quote the paragraph."""
    question = join_phrasal_verbs(question)
    words = _content_words(question)
    if not words:
        return "I found no word in that to look up. Ask in the words of the files, or say 'help'."
    negations = [word for word in dict.fromkeys(_tokens(question)) if word in _NEGATIONS]
    if negations:
        return (
            f"I cannot answer a question with a negation ({_listed(negations)}). Ask without it, or 'search for \"{display(words[0])}\"'."
        )
    if len(words) > _MAX_WORDS:
        return f"That is too long for one question: I can look up {_MAX_WORDS} words at once. Please ask for one thing at a time."
    read = [answer for answer in answers if answer.call.name == "read_file" and not answer.failed]
    if read:
        return _quote(question, words, read)
    if not answers:
        return ModelReply(calls=tuple(_searches(words)))
    return _choose_pages(question, words, answers, whose)


def _searches(words: Sequence[str]) -> Iterator[ToolCall]:
    yield ToolCall(id="call-0", name="glob", arguments={"pattern": "**/*"})
    patterns = dict.fromkeys(form for word in words for stem in _stems(word) for term in search_terms(stem) for form in _cases(term))
    for number, pattern in enumerate(patterns, start=1):
        yield ToolCall(id=f"call-{number}", name="grep", arguments={"pattern": pattern, "output_mode": "content"})


def _cases(term: str) -> tuple[str, ...]:
    return term, term.capitalize(), term.title(), term.upper()


def _choose_pages(question: str, words: Sequence[str], answers: Sequence[Answer], whose: str) -> str | ModelReply:
    """Read the pages that have every word, or name the words that no page has."""
    found: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for page, text in () if answer.failed else _matches(answer):
            found[page] |= {word for word in words if _has(text, word)}
    unknown = [word for word in words if not any(word in having for having in found.values())]
    if unknown:
        unknown = [word for word in unknown if word in _tokens(question)] or unknown  # not "cost", which replaces "how much"
        which = f"the word {_listed(unknown)}" if len(unknown) == 1 else f"any of the words {_listed(unknown)}"
        return f"No {whose} has {which}, so I cannot answer that. Ask in the words of the files: 'list /' shows them."
    pages = sorted(page for page, having in found.items() if len(having) == len(words) and not page.endswith("/"))
    if not pages:
        return f"No file here has all of {_listed(words)}. Ask with fewer words, or 'search for \"{display(words[0])}\"'."
    return ModelReply(
        calls=tuple(
            ToolCall(id=f"page-{number}", name="read_file", arguments={"file_path": page}) for number, page in enumerate(pages[:_MAX_PAGES])
        )
    )


def _matches(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield each page that a search found, with the words of its name or with a matching line."""
    if answer.call.name == "glob":
        yield from ((page, " ".join(_tokens(page))) for page in re.findall(r"(?<=')/[^']*(?=')", answer.text))
        return
    page = ""
    for found in _MATCH.finditer(answer.text):
        page = found[1] or page
        yield page, found[2] or ""


def _quote(question: str, words: Sequence[str], read: Sequence[Answer]) -> str:
    """Quote the paragraph that has every word. If no paragraph has, name the pages that were read."""
    paragraphs = [paragraph for answer in read for paragraph in _paragraphs(answer)]
    exact = [word for word, following in _COMPOUND.findall(question.lower()) if is_content_word(word) and is_content_word(following)]
    full = [one for one in paragraphs if any(_has_all_words(f"{one.context} {part}", words, exact) for part in _parts(one.text))]
    if not full:
        pages = [str(answer.call.arguments["file_path"]) for answer in read]
        return f"No paragraph here has all of {_listed(words)}. Similar words are in {', '.join(pages)}: 'read {pages[0]}' shows the page."
    best = max(full, key=lambda one: _rank(one, words))
    if len({one.page for one in full if _rank(one, words) == _rank(best, words)}) > 1:
        pages = ", ".join(sorted({one.page for one in full}))
        return f"Several pages have {_listed(words)}, such as {pages}. Ask with more words, so that I know which one you mean."
    shown = [best] if all(_has(best.text, word) for word in words) else _section(best, paragraphs)
    others = sorted({one.page for one in full} - {best.page})
    also = f"; also in {', '.join(others)}" if others else ""
    quoted = "\n\n".join(_items(one.text, words) for one in shown)
    if any(_has(best.heading, word) and not _has(quoted, word) for word in words):
        quoted = f"{best.heading}\n\n{quoted}"
    unused = [word for word in dict.fromkeys(_tokens(question)) if word in _QUALIFIERS and not _has_exactly(quoted, word)]
    if _NUMBER.search(_ITEM.sub("", re.sub(r"(?m)^\d+\. ", "", quoted))) is None:
        unused = [*dict.fromkeys(found.lower() for found in _HOW.findall(question)), *unused]
    ignored = f"; not looked up: {_listed(unused)}" if unused else ""
    return f"{quoted}\n\n(from {best.page}{also}; looked up: {_joined([_found_as(quoted, word) for word in words])}{ignored})"


def _has_all_words(text: str, words: Sequence[str], exact: Sequence[str]) -> bool:
    return all(_has(text, word) for word in words) and all(_has_exactly(text, re.escape(word)) for word in exact)


def _parts(text: str) -> list[str]:
    """Return the items of a list, or the whole text if it is not a list."""
    return [item for item in _ITEM.split(text) if item.strip()]


def _items(text: str, words: Sequence[str]) -> str:
    """Return the items of a list that have every word, or the whole text if no item has."""
    having = [item for item in _parts(text) if all(_has(item, word) for word in words)]
    return "".join(having).strip() or text


def _found_as(text: str, word: str) -> str:
    """Quote a word, and the form that the text has if it differs."""
    if _has_exactly(text, re.escape(word)) or _has_exactly(text, re.escape(display(word))):
        return _listed([word])
    found = next((found[0] for stem in _stems(word) if (found := _form(stem).search(text))), None)
    is_plural = found is not None and found.lower().removesuffix("s") == word.removesuffix("s")
    return _listed([word]) if found is None or is_plural else f"{_listed([word])} as '{found}'"


def _section(best: _Paragraph, paragraphs: Sequence[_Paragraph]) -> list[_Paragraph]:
    """Return all paragraphs under the heading, because any of them may answer, or only the best one of a long section."""
    section = [one for one in paragraphs if (one.page, one.context) == (best.page, best.context)]
    return section if len(section) <= _MAX_PARAGRAPHS else [best]


def _has_exactly(text: str, word: str) -> bool:
    """Return whether a text has a word in exactly this form; `word` is a pattern."""
    return re.search(rf"(?i)(?<!\w){word}(?!\w)", text) is not None


def _rank(paragraph: _Paragraph, words: Sequence[str]) -> tuple[bool, int, int]:
    """Rank a paragraph: prose and tables before lists of links, then by matches in heading and text, then by distance of synonyms."""
    is_list = paragraph.text.startswith("- ")
    whole = f"{paragraph.context} {paragraph.text}"
    distance = sum(min(_distance(stem, word) for stem in _stems(word) if _has_form(whole, stem)) for word in words if word[0].isalpha())
    return not is_list, sum(_has(paragraph.context, word) + _has(paragraph.text, word) for word in words), -distance


def _paragraphs(answer: Answer) -> Iterator[_Paragraph]:
    page = str(answer.call.arguments["file_path"])
    heading = ""
    for part in re.split(r"\n\s*\n", re.sub(r"^@@.*@@\n", "", answer.text)):
        text = part.strip()
        if text.startswith("#"):
            heading, _, text = text.partition("\n")
        if text.strip():
            yield _Paragraph(page, text.strip(), heading)


def _content_words(question: str) -> list[str]:
    """Return the words of a question to look up, without function words and repetitions."""
    asked = _HOW_MUCH.sub(" cost ", _PAY_FOR.sub(r"\1 \2 cost ", _HOW.sub(" ", _DATED.sub("up-to-date", question))))
    words = [word for word in dict.fromkeys(_tokens(asked)) if is_content_word(word)]
    words += ["may"] if _MONTH.search(question) is not None else []
    return [word for number, word in enumerate(words) if not any(_stems(word) == _stems(other) for other in words[:number])]


def is_content_word(word: str) -> bool:
    """Return whether a word is a content word, not a function word."""
    return word not in _FUNCTION_WORDS | _NEGATIONS | _QUALIFIERS and (len(word) > 1 or word.isdigit())


def _tokens(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:[.-][^\W_]+)*", text.lower().replace("'s ", " ").replace("'", ""))


def _stems(word: str) -> tuple[str, ...]:
    """Return the stems of a word and of its synonyms."""
    return next((stems for synonyms in _SYNONYMS if _stem(word) in (stems := tuple(map(_stem, synonyms)))), (_stem(word),))


def _stem(word: str) -> str:
    """Remove a common English suffix, and the doubled consonant before it."""
    for ending, shortest in _SUFFIXES:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            return re.sub(r"([bdgklmnprt])\1$", r"\1", word.removesuffix(ending))
    return word


def _has(text: str, word: str) -> bool:
    """Return whether a text has a form of a word or of a synonym. A number must be equal."""
    if word[0].isdigit():
        return re.search(rf"(?<!\w)(?<!\d[.,]){re.escape(word)}(?!\w|[.,]\d|\. )", text) is not None
    return any(_has_form(text, stem) for stem in _stems(word))


def _has_form(text: str, stem: str) -> bool:
    return _form(stem).search(text) is not None


@functools.lru_cache(maxsize=1024)
def _form(stem: str) -> re.Pattern[str]:
    """Match the forms of a word: "cancel" matches "cancelling", "car" does not match "card", "sign" does not match "sign-in"."""
    endings = rf"[bdgklmnprt]?(?:en|ed|ings?|ers?)|(?<=e)[dr]s?|{_FORMS}"
    return phrasal_verb_pattern(stem) or re.compile(rf"(?i)(?<![^\W_]){re.escape(stem)}(?:{endings})?(?![^\W_])(?!{with_particle(stem)})")


def _distance(stem: str, word: str) -> int:
    """Return the distance of a synonym from a word in its row of `_SYNONYMS`."""
    stems = _stems(word)
    return abs(stems.index(stem) - stems.index(_stem(word)))


def _listed(words: Sequence[str]) -> str:
    return _joined([f"'{display(word)}'" for word in words])


def _joined(quoted: Sequence[str]) -> str:
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
