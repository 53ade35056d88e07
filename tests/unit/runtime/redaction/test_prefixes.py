from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor
from interlock.runtime.redaction.prefixes import literal_prefixes, prefix_matcher
from interlock.settings import PATTERNS

KEY = "sk-" + "a1" * 10
LITERAL = "open sesame"


class Slow(Redactor):
    """Searches every chunk in full."""

    __slots__ = ()

    def prefix_matcher(self) -> None:
        return None


def streamed(redactor: Redactor, chunks: list[str]) -> list[str]:
    stream = StreamRedactor(redactor)
    return [*(stream.feed(chunk) for chunk in chunks), stream.flush()]


LETTERS = st.text(alphabet="sk-AIzaghpobBerEGN _xé1", max_size=12)
SECRETS = st.sampled_from([KEY, LITERAL, "ghp_" + "a" * 20, "Bearer " + "x" * 16, "-----BEGIN PRIVATE KEY-----\nabc"])


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Text with secrets in it, cut into chunks anywhere."""
    whole = "".join(draw(st.lists(LETTERS | SECRETS, max_size=6)))
    cuts = sorted({draw(st.integers(0, len(whole))) for _ in range(draw(st.integers(0, 12)))})
    return [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(texts())
def test_the_prefix_matcher_changes_nothing_about_what_is_shown(chunks: list[str]):
    fast, slow = (kind(PATTERNS, literals=[LITERAL]) for kind in (Redactor, Slow))
    assert fast.prefix_matcher() is not None
    shown = "".join(streamed(fast, chunks))
    assert shown == "".join(streamed(slow, chunks))
    assert KEY not in shown
    assert LITERAL not in shown


@given(texts())
def test_the_prefix_matcher_holds_nothing_back_that_a_full_search_would_show(chunks: list[str]):
    fast, slow = (streamed(kind(PATTERNS, literals=[LITERAL]), chunks) for kind in (Redactor, Slow))
    for number in range(len(fast)):
        assert len("".join(fast[:number])) >= len("".join(slow[:number]))


@given(st.sampled_from(PATTERNS), st.data())
def test_every_match_of_a_pattern_starts_with_one_of_its_prefixes(pattern: str, data: st.DataObject):
    prefixes = literal_prefixes((pattern,))
    assert prefixes is not None
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    assert text.startswith(prefixes)


@pytest.mark.parametrize("pattern", ["[a-z]+", ".x", "(?:a|b)", "a|b", "a*b", "a?b", "(ab)", r"\d+", "", "a{0,3}b"])
def test_a_pattern_without_a_literal_prefix_has_no_prefix_matcher(pattern: str):
    assert literal_prefixes((pattern,)) is None
    assert Redactor((pattern,)).prefix_matcher() is None or pattern == ""


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=6), st.text(alphabet="abcd", max_size=10))
def test_a_matcher_finds_texts_and_prefixes_of_them_at_the_end(words: list[str], text: str):
    found = prefix_matcher(tuple(words))
    assert found is not None
    safe = found.safe_length(text)
    has_one = any(word in text for word in words)
    ends = [begin for begin in range(len(text)) if any(word.startswith(text[begin:]) for word in words)]
    if safe is None:
        assert has_one
    elif not has_one:
        assert safe == min(ends, default=len(text))
    else:
        assert safe <= min(match.start() for word in words for match in re.finditer(re.escape(word), text))


def test_a_secret_that_is_added_during_a_stream_is_redacted_from_then_on():
    redactor = Redactor(PATTERNS)
    stream = StreamRedactor(redactor)
    assert stream.feed("open ") == "open "
    redactor.add_secret("tulip")
    assert stream.feed("tu") == ""
    assert stream.feed("lip") + stream.flush() == REDACTED


def test_with_too_many_secrets_every_chunk_is_searched_in_full():
    redactor = Redactor((), literals=[f"secret-{number:03}-value" for number in range(100)])
    assert redactor.prefix_matcher() is None
    assert "".join(streamed(redactor, ["my secret-0", "42-value!"])) == f"my {REDACTED}!"
