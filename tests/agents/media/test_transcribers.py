from __future__ import annotations

import asyncio
import gzip
import importlib.util
import json
import math
import shutil
import struct
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.errors import CapabilityError, CapabilityTimeout, ExtraMissing, MediaBomb, MediaMalformed, MediaUnsupported
from interlock.media import Wav
from interlock_agents.sam.media.pcm import mono
from interlock_agents.sam.media.transcribers import MAX_ANSWER, OpenAITranscriber, PocketsphinxTranscriber

SECRET = "hunter2"  # noqa: S105 - what no message may show


def wav(samples: bytes, *, rate: int = 16_000, width: int = 2, channels: int = 1, encoding: int = 1) -> bytes:
    form = struct.pack("<HHIIHH", encoding, channels, rate, rate * width * channels, width * channels, width * 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


# A server that speaks OpenAI's protocol

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Asked:
    """What the server was sent."""

    def __init__(self) -> None:
        self.head = ""
        self.body = b""
        self.count = 0


@asynccontextmanager
async def server(answer: Answer) -> AsyncGenerator[tuple[str, Asked], None]:
    asked, serving = Asked(), set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(serve(reader, writer)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:"))
            asked.head, asked.body, asked.count = head, await reader.readexactly(size), asked.count + 1
            await answer(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, EOFError):
            pass
        finally:
            writer.transport.abort()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", asked
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
    await asyncio.sleep(0)  # so that what was aborted is closed


def says(body: bytes, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> Answer:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)
        await writer.drain()

    return answer


def heard(text: object) -> Answer:
    return says(json.dumps({"text": text}).encode())


async def ask(answer: Answer, *, timeout_s: float = 10, media_type: str = "audio/wav") -> tuple[str, Asked]:
    async with server(answer) as (url, asked):
        transcriber = OpenAITranscriber("whisper-1", base_url=url, api_key=SECRET, timeout_s=timeout_s)
        try:
            return await transcriber.transcribe(wav(b"\1\2" * 8), media_type=media_type), asked
        finally:
            await transcriber.aclose()


async def fails(answer: Answer, error: type[CapabilityError], **options: Any) -> CapabilityError:
    with pytest.raises(error) as caught:
        await ask(answer, **options)
    assert type(caught.value) is error
    assert SECRET not in str(caught.value)
    return caught.value


async def test_the_audio_is_sent_and_the_transcript_returned():
    text, asked = await ask(heard("good morning"))
    assert text == "good morning"
    assert asked.head.startswith("POST /v1/audio/transcriptions ")
    assert f"bearer {SECRET}" in asked.head.lower()
    assert wav(b"\1\2" * 8) in asked.body
    for part in (b'name="model"\r\n\r\nwhisper-1', b'filename="audio.wav"', b"audio/wav", b'name="response_format"\r\n\r\njson'):
        assert part in asked.body


@pytest.mark.parametrize(("media_type", "name"), [("audio/mpeg", b"audio.mp3"), ("audio/ogg", b"audio.ogg"), ("audio/flac", b"audio.flac")])
async def test_the_file_name_has_the_suffix_of_its_type(media_type: str, name: bytes):
    _, asked = await ask(heard("hello"), media_type=media_type)
    assert name in asked.body


async def test_another_audio_type_is_unsupported_without_a_call():
    with pytest.raises(MediaUnsupported, match="not taken"):
        await OpenAITranscriber("whisper-1", base_url="http://127.0.0.1:9").transcribe(b"MThd", media_type="audio/midi")


@pytest.mark.parametrize("status", [400, 415, 422])
async def test_audio_that_the_server_cannot_use_is_malformed(status: int):
    await fails(says(json.dumps({"error": {"message": SECRET}}).encode(), status=f"{status} No"), MediaMalformed)


@pytest.mark.parametrize(("status", "setting"), [(401, "transcriber_api_key"), (403, "transcriber_api_key"), (404, "transcriber_base_url")])
async def test_an_error_status_names_the_setting_to_check(status: int, setting: str):
    error = await fails(says(json.dumps({"error": {"message": SECRET}}).encode(), status=f"{status} No"), MediaUnsupported)
    assert setting in str(error)


@pytest.mark.parametrize("status", [302, 413, 429, 500, 503])
async def test_a_failing_server_is_a_typed_error_and_not_retried(status: int):
    async with server(says(SECRET.encode(), status=f"{status} No", more="Location: /v2\r\nRetry-After: 0\r\n")) as (url, asked):
        with pytest.raises(MediaUnsupported, match=str(status)) as caught:
            await OpenAITranscriber("whisper-1", base_url=url, api_key=SECRET).transcribe(wav(b""), media_type="audio/wav")
        assert asked.count == 1
    assert SECRET not in str(caught.value)


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def half(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"text": "good')
    await writer.drain()


async def noise(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0\1\2\3 not HTTP at all\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize("answer", [reset, half, noise], ids=["reset", "half an answer", "not HTTP"])
async def test_a_broken_connection_is_a_typed_error(answer: Answer):
    await fails(answer, MediaUnsupported)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "ftp://127.0.0.1/", "not a url", "http://[", "http://\n"])
async def test_an_unreachable_address_is_a_typed_error(url: str):
    with pytest.raises(MediaUnsupported, match="transcriber_base_url"):
        await OpenAITranscriber("whisper-1", base_url=url).transcribe(wav(b""), media_type="audio/wav")


@pytest.mark.parametrize("key", ["hunter2\n", "hünter2"])
async def test_an_invalid_key_is_a_typed_error_and_not_shown(key: str):
    async with server(heard("hello")) as (url, _):
        with pytest.raises(MediaUnsupported) as caught:
            await OpenAITranscriber("whisper-1", base_url=url, api_key=key).transcribe(wav(b""), media_type="audio/wav")
    assert "nter2" not in str(caught.value)


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte again and again, so that no single read ever waits long."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("answer", [hang, drip], ids=["silent", "a byte at a time"])
async def test_a_hanging_server_is_a_timeout(answer: Answer):
    async with asyncio.timeout(8):  # so that a missing limit fails here
        await fails(answer, CapabilityTimeout, timeout_s=0.2)


def endless(status: str) -> tuple[Answer, list[int]]:
    sent = [0]

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b" " * 65_536
        while sent[0] < 64 * MAX_ANSWER:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            sent[0] += len(piece)

    return answer, sent


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [("200 OK", MediaUnsupported, "more than"), ("500 No", MediaUnsupported, "HTTP 500"), ("400 No", MediaMalformed, "HTTP 400")],
)
async def test_an_endless_response_is_cut_off_before_it_is_buffered(status: str, error: type[CapabilityError], reason: str):
    answer, sent = endless(status)
    assert reason in str(await fails(answer, error))
    assert sent[0] < 16 * MAX_ANSWER


async def test_a_compressed_response_is_rejected():
    packed = gzip.compress(json.dumps({"text": "x" * 1000}).encode())
    error = await fails(says(packed, more="Content-Encoding: gzip\r\n"), MediaUnsupported)
    assert "compressed" in str(error)
    _, asked = await ask(heard("hello"))
    assert "accept-encoding: identity" in asked.head.lower()


NO_TRANSCRIPTS = {
    "not JSON": says(f"<html>{SECRET}</html>".encode(), kind="text/html"),
    "JSON in name only": says(SECRET.encode()),
    "not UTF-8": says(b'{"text": "\xff"}'),
    "nothing": says(b""),
    "a list": says(b'["text"]'),
    "a number": says(b"7"),
    "no text": says(b'{"words": "hello"}'),
    "text that is none": heard(7),
    "text that is null": heard(None),
    "deep": says(b'{"text": ' + b"[" * 200_000),
}


@pytest.mark.parametrize("answer", NO_TRANSCRIPTS.values(), ids=NO_TRANSCRIPTS.keys())
async def test_a_response_without_a_transcript_is_a_typed_error(answer: Answer):
    assert "transcript" in str(await fails(answer, MediaUnsupported))


@pytest.mark.parametrize("text", ["", " ", "\n\t\u2003"])
async def test_a_transcript_without_words_is_malformed_audio(text: str):
    await fails(heard(text), MediaMalformed)


def test_one_transcriber_serves_several_event_loops_and_can_be_closed_at_any_time():
    async def turn(transcriber: OpenAITranscriber, port: int) -> str:
        closed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"--\r\n")  # the end of the form
            await heard("hello")(reader, writer)
            await reader.read()  # for as long as the other side keeps the connection
            writer.close()
            await writer.wait_closed()
            closed.set()

        async with await asyncio.start_server(serve, "127.0.0.1", port):
            text = await transcriber.transcribe(wav(b""), media_type="audio/wav")
            async with asyncio.timeout(5):
                await closed.wait()
            return text

    port = free_port()
    transcriber = OpenAITranscriber("whisper-1", base_url=f"http://127.0.0.1:{port}/v1")
    asyncio.run(transcriber.aclose())
    assert [asyncio.run(turn(transcriber, port)) for _ in range(3)] == ["hello"] * 3
    asyncio.run(transcriber.aclose())
    asyncio.run(transcriber.aclose())


def free_port() -> int:
    async def find() -> int:
        async with await asyncio.start_server(hang, "127.0.0.1", 0) as listening:
            return int(listening.sockets[0].getsockname()[1])

    return asyncio.run(find())


# pocketsphinx

ESPEAK = shutil.which("espeak-ng")
SENTENCE = "how are you doing today"
needs_speech = pytest.mark.skipif(ESPEAK is None, reason="no espeak-ng here to make speech with")


def say(text: str, *options: str) -> bytes:
    """Make speech, as a WAV of 22,050 Hz, 16 bits, one channel, whose sizes were never filled in."""
    assert ESPEAK is not None
    return subprocess.run([ESPEAK, "-v", "en-us", "-s", "130", *options, "--stdout", text], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def listener() -> PocketsphinxTranscriber:
    return PocketsphinxTranscriber()


@pytest.fixture(scope="module")
def spoken() -> Wav:
    return Wav.read(say(SENTENCE))


def words(text: str) -> set[str]:
    return set(text.split())


@needs_speech
async def test_speech_becomes_words(listener: PocketsphinxTranscriber, spoken: Wav):
    text = await listener.transcribe(wav(spoken.data, rate=spoken.rate), media_type="audio/wav")
    assert {"how", "are", "you"} <= words(text)


@needs_speech
async def test_numbers_become_words(listener: PocketsphinxTranscriber):
    text = await listener.transcribe(say("one two three four five"), media_type="audio/wav")
    assert len({"two", "three", "four", "five"} & words(text)) >= 3


@needs_speech
async def test_earlier_recordings_do_not_affect_the_result(listener: PocketsphinxTranscriber):
    audio, other = say("one two three four five six seven"), say("seven eight nine", "-a", "10", "-p", "99")
    first = await listener.transcribe(audio, media_type="audio/wav")
    await listener.transcribe(other, media_type="audio/wav")
    assert await listener.transcribe(audio, media_type="audio/wav") == first


@needs_speech
async def test_speech_at_the_very_end_is_recognised(listener: PocketsphinxTranscriber, spoken: Wav):
    """A sound that stops in the middle of a word, on the very edge of a frame."""
    sound = mono(spoken, rate=16_000)
    end = len(sound) * 3 // 4 // 960 * 960
    assert "you" in words(await listener.transcribe(wav(sound[:end]), media_type="audio/wav"))


def other_width(sound: bytes, width: int) -> bytes:
    samples = array("h", sound)
    match width:
        case 1:
            return bytes((sample >> 8) + 128 for sample in samples)
        case 3:
            return b"".join((sample << 8).to_bytes(3, "little", signed=True) for sample in samples)
        case 4:
            return array("i", (sample << 16 for sample in samples)).tobytes()
        case _:
            return sound


def other_rate(sound: bytes, given: int, wanted: int) -> bytes:
    samples = array("h", sound)
    count = len(samples) * wanted // given
    return array("h", (samples[n * given // wanted] for n in range(count))).tobytes()


def other_channels(sound: bytes, width: int, channels: int) -> bytes:
    return b"".join(sound[at : at + width] * channels for at in range(0, len(sound), width))


@needs_speech
@pytest.mark.parametrize(
    ("rate", "width", "channels"),
    [(8_000, 2, 2), (16_000, 1, 1), (48_000, 3, 2), (44_100, 4, 6), (11_025, 2, 1)],
)
async def test_speech_of_every_rate_width_and_number_of_channels_becomes_words(
    listener: PocketsphinxTranscriber, spoken: Wav, rate: int, width: int, channels: int
):
    sound = other_width(other_rate(spoken.data, spoken.rate, rate), width)
    audio = wav(other_channels(sound, width, channels), rate=rate, width=width, channels=channels)
    assert len({"how", "are", "you", "doing", "today"} & words(await listener.transcribe(audio, media_type="audio/wav"))) >= 2


SECONDS = 2
TONE = array("h", (int(12_000 * math.sin(2 * math.pi * 440 * n / 16_000)) for n in range(SECONDS * 16_000))).tobytes()


@pytest.mark.parametrize("sound", [b"", b"\0\0", bytes(SECONDS * 32_000), TONE], ids=["nothing", "a sample", "silence", "a tone"])
async def test_audio_without_words_is_malformed(listener: PocketsphinxTranscriber, sound: bytes):
    with pytest.raises(MediaMalformed, match="No words"):
        await listener.transcribe(wav(sound), media_type="audio/wav")


@pytest.mark.parametrize("media_type", ["audio/mpeg", "audio/ogg", "audio/flac", "audio/midi"])
async def test_pocketsphinx_accepts_wav_only(listener: PocketsphinxTranscriber, media_type: str):
    with pytest.raises(MediaUnsupported, match="WAV"):
        await listener.transcribe(b"ID3", media_type=media_type)


@pytest.mark.parametrize("encoding", [2, 6, 7, 17, 85])
async def test_pocketsphinx_rejects_compressed_wav(listener: PocketsphinxTranscriber, encoding: int):
    with pytest.raises(MediaUnsupported, match="PCM"):
        await listener.transcribe(wav(bytes(100), width=1, encoding=encoding), media_type="audio/wav")


@pytest.mark.parametrize(("rate", "size"), [(1, 601), (8_000, 4_800_001)])
async def test_audio_over_the_time_limit_is_a_bomb(listener: PocketsphinxTranscriber, rate: int, size: int):
    with pytest.raises(MediaBomb):
        await listener.transcribe(wav(bytes(size), rate=rate, width=1), media_type="audio/wav")


async def test_truncated_audio_is_malformed(listener: PocketsphinxTranscriber):
    with pytest.raises(MediaMalformed):
        await listener.transcribe(wav(bytes(100))[:-50], media_type="audio/wav")


async def test_a_cancelled_transcription_stops(listener: PocketsphinxTranscriber, monkeypatch: pytest.MonkeyPatch):
    started, left = threading.Event(), threading.Event()

    def utterances(_: object, __: bytes, gone: threading.Event) -> list[str]:
        started.set()
        assert gone.wait(10)
        left.set()
        return []

    monkeypatch.setattr(PocketsphinxTranscriber, "_utterances", utterances)
    task = asyncio.create_task(listener.transcribe(wav(TONE), media_type="audio/wav"))
    assert await asyncio.to_thread(started.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(left.wait, 10)


@needs_speech
async def test_decoding_stops_when_the_caller_is_cancelled(listener: PocketsphinxTranscriber, spoken: Wav):
    await listener.transcribe(wav(spoken.data, rate=spoken.rate), media_type="audio/wav")
    gone = threading.Event()
    gone.set()
    before = time.perf_counter()
    minutes = mono(spoken, rate=16_000) * 60
    assert "".join(listener._utterances(minutes, gone)) == ""  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001
    assert time.perf_counter() - before < 10


def test_without_the_package_the_install_command_is_reported(monkeypatch: pytest.MonkeyPatch):
    def nothing(_: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(ExtraMissing, match=r"pip install 'interlock\[speech\]'"):
        PocketsphinxTranscriber()


async def test_a_package_that_cannot_be_loaded_is_a_typed_error(monkeypatch: pytest.MonkeyPatch):
    transcriber = PocketsphinxTranscriber()
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(MediaUnsupported, match="speech"):
        await transcriber.transcribe(wav(TONE), media_type="audio/wav")


@pytest.mark.parametrize("error", [RuntimeError(SECRET), ValueError(SECRET)])
async def test_errors_of_pocketsphinx_are_typed(listener: PocketsphinxTranscriber, monkeypatch: pytest.MonkeyPatch, error: Exception):
    def utterances(*_: object) -> list[str]:
        raise error

    monkeypatch.setattr(PocketsphinxTranscriber, "_utterances", utterances)
    with pytest.raises(MediaMalformed) as caught:
        await listener.transcribe(wav(TONE), media_type="audio/wav")
    assert SECRET not in str(caught.value)


def test_no_transcriber_is_imported_before_its_first_use():
    code = (
        "import sys; from interlock_agents.sam.media.transcribers import OpenAITranscriber, PocketsphinxTranscriber; "
        "OpenAITranscriber('x'); PocketsphinxTranscriber(); sys.exit(bool({'openai', 'pocketsphinx'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_one_recording_is_transcribed_at_a_time(listener: PocketsphinxTranscriber, monkeypatch: pytest.MonkeyPatch):
    """A decoder cannot listen to two."""
    running, most = [0], [0]

    def utterances(*_: object) -> list[str]:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.02)  # long enough for a second thread to be seen
        running[0] -= 1
        return ["hello"]

    monkeypatch.setattr(PocketsphinxTranscriber, "_utterances", utterances)
    heard = await asyncio.gather(*(listener.transcribe(wav(TONE), media_type="audio/wav") for _ in range(5)))
    assert (heard, most) == (["hello"] * 5, [1])
