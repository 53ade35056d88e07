"""The nodes of scaffold, in the order of the rows."""

from pathlib import Path

from interlock import Present
from interlock.capabilities import Message, Model
from interlock.errors import ModelError

from .draft import Draft
from .state import Answerable, Drafted, Refusal, Refused, Replied, Topic

PROMPT = Path(__file__).with_name("prompt.md").read_text(encoding="utf-8")

SENTENCES: dict[Refusal, str] = {
    "off_topic": "I cannot help with that.",
    "no_answer": "I have no answer to that.",
}


async def draft_answer(question: str, *, model: Model) -> Drafted | Refused:
    """Call the model for the topic of the question and an answer."""
    messages = (
        Message(role="system", text=PROMPT),
        Message(role="user", text=question),
    )
    try:
        draft = (await model.decide(messages, schema=Draft)).value
    except ModelError:
        return Refused(refusal="no_answer")
    return Drafted(topic=draft.topic, answer=draft.answer.strip())


async def choose_way(topic: Topic, answer: Present) -> Answerable | Refused:
    """Route by the topic and the presence of an answer, not by its text."""
    if topic == "other":
        return Refused(refusal="off_topic")
    return Answerable() if answer else Refused(refusal="no_answer")


async def give_answer(answer: str) -> Replied:
    """Reply with the answer."""
    return Replied(reply=answer)


async def refuse(refusal: Refusal) -> Replied:
    """Reply with the sentence for the reason of the refusal."""
    return Replied(reply=SENTENCES[refusal])
