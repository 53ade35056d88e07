"""A model that repeats itself is stopped; one that only writes a long answer, a table or a rule is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.capabilities.model import Message, Model
from interlock.errors import ModelOutputInvalid
from interlock.models.langchain import open_provider
from interlock.models.repetition import LoopDetector
from tests.support.openai_server import KEY, MODEL, OpenAIServer

HELLO = [Message(role="user", text="Hello")]
SENTENCE = "I am a language model and I can help you with that. "

LOOPS = {
    "a sentence": "Well. " + SENTENCE * 100,
    "a word": "the " * 500,
    "a paragraph": ("x".join(str(number) for number in range(60)) + "\n\n") * 20,
    "blanks": '{"a": 1' + "\n" * 3000,
    "a rule without end": "-" * 6000,
}
FINE = {
    "a long answer": " ".join(f"Sentence {number} says something about {number * 7}." for number in range(2000)),
    "a sentence a few times": SENTENCE * 6,
    "a rule": "-" * 2000,
    "a table of zeros": "| 0 | 0 | 0 |\n" * 100,
    "rows that differ": "\n".join(f"| {number} | open | Berlin |" for number in range(1000)),
    "verses with a refrain": "\n".join(f"Verse {number}\nLa la la, hear the train go by\n" for number in range(100)),
}


def read(text: str, size: int) -> None:
    detector = LoopDetector()
    for start in range(0, len(text), size):
        detector.add(text[start : start + size])


async def listen(model: Model, came: list[str]) -> None:
    async for piece in model.stream(HELLO):
        came.append(piece.text)  # noqa: PERF401 - what came before it fails counts


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS.keys())
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_loop_is_detected_in_any_chunks(text: str, size: int) -> None:
    with pytest.raises(ModelOutputInvalid, match="repeated itself"):
        read(text, size)


@pytest.mark.parametrize("text", FINE.values(), ids=FINE.keys())
def test_similar_lines_are_not_a_loop(text: str) -> None:
    LoopDetector().add(text)


@given(unit=st.text(alphabet=st.characters(categories=["L", "N", "P"]), min_size=1, max_size=400), before=st.text(max_size=300))
def test_every_repeated_unit_is_detected(unit: str, before: str) -> None:
    detector = LoopDetector()
    with pytest.raises(ModelOutputInvalid):
        detector.add(before + unit * (6000 // len(unit) + 20))


async def test_a_loop_ends_a_stream_and_rejects_a_reply() -> None:
    with OpenAIServer("strict", {"text": [LOOPS["a sentence"]]}) as server:
        model = open_provider(f"openai:{MODEL}", base_url=server.url, api_key=KEY, timeout_s=20, max_tokens=1000, max_reply_bytes=100_000)
        with pytest.raises(ModelOutputInvalid, match="repeated itself"):
            await model.reply(HELLO)
        came: list[str] = []
        with pytest.raises(ModelOutputInvalid, match="repeated itself"):
            await listen(model, came)
        await model.aclose()
    assert len(SENTENCE) < len("".join(came)) < len(LOOPS["a sentence"]) / 2
