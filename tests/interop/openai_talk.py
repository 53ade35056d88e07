"""Talks to agents by OpenAI's client, whichever version is installed; writes what it heard as JSON. Run as a script by the tests."""

from __future__ import annotations

import json
import sys
from typing import Any

import openai

QUESTIONS = {
    "sam": "Good morning",
    "desk": "Do you have headphones?",
    "analyst": "What was the revenue in 2024?",
    "gateway/admin": "list the files",
    "gateway/user": "list my documents",
    "puntini": "Add a person called Ada",
}
GOALS = ["Add a task Design", "Add a person Design", "Set the priority of Design to 3", "the task", "continue"]


def replies(client: openai.OpenAI, model: str, text: str) -> list[str | None]:
    """Return the reply to a message by each of the four ways to get it."""
    said: Any = [{"role": "user", "content": text}]
    whole = client.chat.completions.create(model=model, messages=said)
    chunks = list(client.chat.completions.create(model=model, messages=said, stream=True, stream_options={"include_usage": True}))
    response = client.responses.create(model=model, input=text)
    events = list(client.responses.create(model=model, input=text, stream=True))
    assert whole.usage is not None
    assert chunks[-1].usage == whole.usage
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert events[-1].type == "response.completed"
    return [
        whole.choices[0].message.content,
        "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        response.output_text,
        "".join(event.delta for event in events if event.type == "response.output_text.delta"),
    ]


def conversation(client: openai.OpenAI) -> list[str]:
    """Return what an agent says in a conversation in which it asks back, by chat completions."""
    heard: list[str] = []
    messages: Any = []
    for text in GOALS:
        messages.append({"role": "user", "content": text})
        reply = client.chat.completions.create(model="puntini", messages=messages, extra_headers={"X-OpenWebUI-Chat-Id": "chat"})
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        heard.append(reply.choices[0].message.content or "")
    return heard


def responses(client: openai.OpenAI) -> list[str]:
    """Return what it says in the same conversation by responses."""
    heard: list[str] = []
    previous: str | None = None
    for text in GOALS:
        reply = client.responses.create(model="puntini", input=text, previous_response_id=previous)
        previous = reply.id
        heard.append(reply.output_text)
    return heard


def failures(client: openai.OpenAI) -> list[Any]:
    """Return the classes and codes of errors."""
    found: list[Any] = []
    empty: Any = [{"role": "user", "content": " "}]
    for model, messages in (("nothing", empty), ("sam", empty)):
        try:
            client.chat.completions.create(model=model, messages=messages)
        except openai.APIStatusError as error:
            found.append([type(error).__name__, error.code])
    return found


def main(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        heard = {
            "version": openai.__version__,
            "models": [model.id for model in client.models.list()],
            "replies": {model: replies(client, model, text) for model, text in QUESTIONS.items()},
            "conversation": conversation(client),
            "responses": responses(client),
            "failures": failures(client),
        }
    print(json.dumps(heard))  # noqa: T201 - for the test


if __name__ == "__main__":
    main(sys.argv[1])
