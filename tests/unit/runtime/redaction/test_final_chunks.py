from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor
from interlock.settings import PATTERNS

KEY = "sk-" + "a1" * 10
LITERAL = "open sesame"


class Slow(Redactor):
    """Searches every chunk in full."""

    def is_final(self, chunk: str) -> bool:
        return False


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
def test_the_cache_of_final_chunks_changes_nothing_about_what_is_shown(chunks: list[str]):
    fast, slow = (kind(PATTERNS, literals=[LITERAL]) for kind in (Redactor, Slow))
    shown = "".join(streamed(fast, chunks))
    assert shown == "".join(streamed(slow, chunks))
    assert KEY not in shown
    assert LITERAL not in shown


@given(texts())
def test_the_cache_of_final_chunks_holds_nothing_back_that_a_full_search_would_show(chunks: list[str]):
    fast, slow = (streamed(kind(PATTERNS, literals=[LITERAL]), chunks) for kind in (Redactor, Slow))
    for number in range(len(fast)):
        assert len("".join(fast[:number])) >= len("".join(slow[:number]))


def test_a_secret_that_is_added_during_a_stream_is_redacted_from_then_on():
    redactor = Redactor(PATTERNS)
    stream = StreamRedactor(redactor)
    assert stream.feed("open ") == "open "
    redactor.add_secret("tulip")
    assert stream.feed("tu") == ""
    assert stream.feed("lip") + stream.flush() == REDACTED


def test_a_redactor_that_shares_the_cache_does_not_know_the_secrets_of_another():
    redactor = Redactor(PATTERNS)
    assert StreamRedactor(redactor).feed("tulip") == "tulip"
    turn = redactor.for_turn()
    turn.add_secret("tulip")
    assert StreamRedactor(turn).feed("tulip!") == f"{REDACTED}!"
    assert StreamRedactor(redactor).feed("tulip") == "tulip"


def test_with_many_secrets_every_one_of_them_is_redacted():
    redactor = Redactor((), literals=[f"secret-{number:03}-value" for number in range(100)])
    assert "".join(streamed(redactor, ["my secret-0", "42-value!"])) == f"my {REDACTED}!"


def test_the_cache_of_final_chunks_does_not_grow_with_what_is_said():
    redactor = Redactor(PATTERNS)
    words = [f"word {number}" for number in range(20_000)]
    StreamRedactor(redactor).feed("hello")
    tracemalloc.start()
    try:
        assert [StreamRedactor(redactor).feed(word) for word in words] == words
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 1_000_000
    assert StreamRedactor(redactor).feed(KEY + " ") == f"{REDACTED} "
