from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor
from interlock.runtime.redaction.prefixes import beginnings, looker
from interlock.settings import PATTERNS

KEY = "sk-" + "a1" * 10
LITERAL = "open sesame"


class Slow(Redactor):
    """Looks at every text closely."""

    __slots__ = ()

    def looker(self) -> None:
        return None


def streamed(redactor: Redactor, pieces: list[str]) -> list[str]:
    stream = StreamRedactor(redactor)
    return [*(stream.feed(piece) for piece in pieces), stream.flush()]


LETTERS = st.text(alphabet="sk-AIzaghpobBerEGN _xé1", max_size=12)
SECRETS = st.sampled_from([KEY, LITERAL, "ghp_" + "a" * 20, "Bearer " + "x" * 16, "-----BEGIN PRIVATE KEY-----\nabc"])


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Text with secrets in it, cut into pieces anywhere."""
    whole = "".join(draw(st.lists(LETTERS | SECRETS, max_size=6)))
    cuts = sorted({draw(st.integers(0, len(whole))) for _ in range(draw(st.integers(0, 12)))})
    return [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(texts())
def test_a_glance_shows_what_a_close_look_shows(pieces: list[str]):
    fast, slow = (kind(PATTERNS, literals=[LITERAL]) for kind in (Redactor, Slow))
    assert fast.looker() is not None
    shown = "".join(streamed(fast, pieces))
    assert shown == "".join(streamed(slow, pieces))
    assert KEY not in shown
    assert LITERAL not in shown


@given(texts())
def test_a_glance_holds_nothing_back_that_a_close_look_does_not(pieces: list[str]):
    fast, slow = (streamed(kind(PATTERNS, literals=[LITERAL]), pieces) for kind in (Redactor, Slow))
    for number in range(len(fast)):
        assert len("".join(fast[:number])) >= len("".join(slow[:number]))


@given(st.sampled_from(PATTERNS), st.data())
def test_whatever_fits_a_pattern_begins_as_it_says(pattern: str, data: st.DataObject):
    begun = beginnings((pattern,))
    assert begun is not None
    text = data.draw(st.from_regex(pattern, fullmatch=True))
    assert text.startswith(begun)


@pytest.mark.parametrize("pattern", ["[a-z]+", ".x", "(?:a|b)", "a|b", "a*b", "a?b", "(ab)", r"\d+", "", "a{0,3}b"])
def test_a_pattern_that_does_not_begin_with_letters_has_to_be_looked_for_closely(pattern: str):
    assert beginnings((pattern,)) is None
    assert Redactor((pattern,)).looker() is None or pattern == ""


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=6), st.text(alphabet="abcd", max_size=10))
def test_a_looker_finds_texts_and_their_beginnings_at_the_end(words: list[str], text: str):
    found = looker(tuple(words))
    assert found is not None
    clear = found.clear(text)
    has_one = any(word in text for word in words)
    ends = [begin for begin in range(len(text)) if any(word.startswith(text[begin:]) for word in words)]
    if clear == -1:
        assert has_one
    elif not has_one:
        assert clear == min(ends, default=len(text))
    else:
        assert clear <= min(match.start() for word in words for match in re.finditer(re.escape(word), text))


def test_a_secret_that_is_learnt_while_a_stream_comes_is_looked_for_from_then_on():
    redactor = Redactor(PATTERNS)
    stream = StreamRedactor(redactor)
    assert stream.feed("open ") == "open "
    redactor.learn("tulip")
    assert stream.feed("tu") == ""
    assert stream.feed("lip") + stream.flush() == REDACTED


def test_too_many_secrets_are_looked_for_closely():
    redactor = Redactor((), literals=[f"secret-{number:03}-value" for number in range(100)])
    assert redactor.looker() is None
    assert "".join(streamed(redactor, ["my secret-0", "42-value!"])) == f"my {REDACTED}!"
