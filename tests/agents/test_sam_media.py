from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest

from interlock import Interlock, Settings, TurnResult
from interlock.engine import EngineName
from interlock_agents.sam.capabilities import Images, ModelBackend, ModelRequest, Transcriber
from interlock_agents.sam.media.refusing import NoImages, NoTranscriber
from interlock_agents.sam.nodes import IMAGE_PROMPT
from interlock_agents.sam.state import ErrorType
from interlock_agents.sam.testing import ScriptedBackend


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\0"))
    + chunk(b"IEND", b"")
)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
GIF = b"GIF89a\x01\x00\x01\x00"
WEBP = b"RIFF\x1a\x00\x00\x00WEBPVP8L"
WAV = b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data\0\0\0\0"
MP3 = b"ID3\x03\x00\x00\x00\x00\x00\x00"
OGG = b"OggS\x00\x02"
FLAC = b"fLaC\x00\x00\x00\x22"


def uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


@dataclass
class Ear:
    """A transcriber for tests."""

    heard: str | Exception = "good morning"
    types: list[str] = field(default_factory=list[str])

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        self.types.append(media_type)
        if isinstance(self.heard, Exception):
            raise self.heard
        return self.heard


@dataclass
class Eye:
    """An image adapter for tests."""

    seen: str | Exception = "data:image/png;base64,small"
    types: list[str] = field(default_factory=list[str])

    async def normalise(self, image: bytes, *, media_type: str) -> str:
        self.types.append(media_type)
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen


async def take(engine: EngineName, raw: str, **grants: Any) -> tuple[TurnResult, list[ModelRequest]]:
    model = ScriptedBackend("an answer")
    adapters: dict[type, object] = {ModelBackend: model}
    adapters |= {{"ear": Transcriber, "eye": Images}[name]: adapter for name, adapter in grants.items()}
    return await Interlock(Settings(engine=engine), grants=adapters).run("sam", raw), model.requests


BAD = {
    "bad base64": ("data:image/png;base64,%%%", "media_malformed"),
    "bad padding": ("data:image/png;base64,iVBORw0KGgo", "media_malformed"),
    "base64 that is not ASCII": ("data:image/png;base64,é", "media_malformed"),
    "base64 with line breaks": ("data:image/png;base64,iVBOR\nw0KGgo=", "media_malformed"),
    "nothing inside": ("data:image/png;base64,", "media_malformed"),
    "not an image": (uri("image/png", b"not a picture"), "media_malformed"),
    "truncated audio": (uri("audio/wav", WAV[:8]), "media_malformed"),
    "not audio": (uri("audio/wav", b"not a sound"), "media_malformed"),
    "a PNG that is a JPEG": (uri("image/png", JPEG), "media_malformed"),
    "a JPEG that is a PNG": (uri("image/jpeg", PNG), "media_malformed"),
    "audio that is an image": (uri("audio/wav", PNG), "media_malformed"),
    "an image that is audio": (uri("image/png", WAV), "media_malformed"),
    "an unknown image type that is a PNG": (uri("image/tiff", PNG), "media_malformed"),
    "text that is an image": (uri("text/plain", PNG), "media_malformed"),
    "a document that is an image": (uri("application/pdf", PNG), "media_malformed"),
    "text that is not UTF-8": (uri("text/plain", b"\xff\xfe"), "media_malformed"),
    "text in bad base64": ("data:text/plain;base64,%%%", "media_malformed"),
    "a document": (uri("application/pdf", b"%PDF-1.7"), "unsupported_media"),
    "a document in bad base64": ("data:application/pdf;base64,%%%", "unsupported_media"),
    "video": (uri("video/mp4", b"\0\0\0\x18ftypmp42"), "unsupported_media"),
    "an unknown image type": (uri("image/tiff", b"II*\0"), "unsupported_media"),
    "an unknown audio type": (uri("audio/midi", b"MThd"), "unsupported_media"),
    "audio that nobody transcribes": (uri("audio/wav", WAV), "unsupported_media"),
    "an image that nobody looks at": (uri("image/png", PNG), "unsupported_media"),
    "text with nothing inside": ("data:text/plain,", "input_empty"),
    "text that is blank": ("data:text/plain,%20%0A", "input_empty"),
    "text that is too long": (uri("text/plain", b"x" * 32_001), "input_too_large"),
}


@pytest.mark.parametrize(("raw", "code"), BAD.values(), ids=BAD.keys())
async def test_unusable_media_is_a_typed_error_without_a_model_call(engine: EngineName, refused_path: tuple[str, ...], raw: str, code: str):
    result, requests = await take(engine, raw, ear=NoTranscriber(), eye=NoImages())
    assert result.path == refused_path
    assert requests == []
    assert result.error is not None
    assert (result.status, result.error.code, result.error.node) == ("error", code, "error_router_node")
    assert result.output == result.error.message
    assert result.output


TEXT = {
    "plain": ("data:text/plain,hello%20there", "hello there"),
    "base64": (uri("text/plain", "Grüße".encode()), "Grüße"),
    "with a charset": ("data:text/plain;charset=utf-8;base64,aGVsbG8=", "hello"),
    "another kind of text": (uri("text/markdown", b"# hello"), "# hello"),
    "no type": ("data:,hello", "data:,hello"),
    "a sentence": ("data: the new oil", "data: the new oil"),
    "only the prefix": ("data:", "data:"),
    "no comma": ("data:image/png;base64", "data:image/png;base64"),
    "in the middle": ("look: " + uri("image/png", PNG), "look: " + uri("image/png", PNG)),
    "a url": ("https://example.org/a.png", "https://example.org/a.png"),
}


@pytest.mark.parametrize(("raw", "prompt"), TEXT.values(), ids=TEXT.keys())
async def test_text_in_a_data_uri_reaches_the_model_as_text(engine: EngineName, success_path: tuple[str, ...], raw: str, prompt: str):
    result, requests = await take(engine, raw)
    assert result.path == success_path
    assert result.state["input_type"] == "text"
    assert [(request.prompt, request.image) for request in requests] == [(prompt, None)]


@pytest.mark.parametrize(
    ("declared", "content", "media_type"),
    [
        ("audio/wav", WAV, "audio/wav"),
        ("audio/x-wav", WAV, "audio/wav"),
        ("AUDIO/WAV", WAV, "audio/wav"),
        ("audio/mp3", MP3, "audio/mpeg"),
        ("audio/mpeg", b"\xff\xfb\x90\x00", "audio/mpeg"),
        ("audio/ogg", OGG, "audio/ogg"),
        ("audio/flac", FLAC, "audio/flac"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_transcript_is_the_prompt(
    engine: EngineName, success_path: tuple[str, ...], declared: str, content: bytes, media_type: str
):
    ear = Ear(" good\tmorning ")
    result, requests = await take(engine, uri(declared, content), ear=ear)
    assert result.path == success_path
    assert result.state["input_type"] == "audio"
    assert ear.types == [media_type]
    assert [(request.prompt, request.image) for request in requests] == [(" good\tmorning", None)]


@pytest.mark.parametrize(
    ("declared", "content", "media_type"),
    [
        ("image/png", PNG, "image/png"),
        ("image/jpeg", JPEG, "image/jpeg"),
        ("image/jpg", JPEG, "image/jpeg"),
        ("image/gif", GIF, "image/gif"),
        ("image/webp", WEBP, "image/webp"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_model_gets_the_image_of_the_adapter(
    engine: EngineName, success_path: tuple[str, ...], declared: str, content: bytes, media_type: str
):
    eye = Eye()
    result, requests = await take(engine, uri(declared, content), eye=eye)
    assert result.path == success_path
    assert result.state["input_type"] == "image"
    assert eye.types == [media_type]
    assert [(request.prompt, request.image) for request in requests] == [(IMAGE_PROMPT, "data:image/png;base64,small")]


@pytest.mark.parametrize("heard", ["", " ", "\x07"])
async def test_audio_without_words_is_malformed_without_a_model_call(engine: EngineName, refused_path: tuple[str, ...], heard: str):
    result, requests = await take(engine, uri("audio/wav", WAV), ear=Ear(heard))
    assert (result.path, requests) == (refused_path, [])
    assert result.error is not None
    assert result.error.code == "media_malformed"


@pytest.mark.parametrize("seen", ["", " ", "a picture", "data:text/plain,hello", "data:image/png"])
async def test_an_adapter_that_returns_no_image_is_malformed_without_a_model_call(
    engine: EngineName, refused_path: tuple[str, ...], seen: str
):
    result, requests = await take(engine, uri("image/png", PNG), eye=Eye(seen))
    assert (result.path, requests) == (refused_path, [])
    assert result.error is not None
    assert result.error.code == "media_malformed"


@pytest.mark.parametrize("raw", [uri("audio/wav", WAV), uri("image/png", PNG)], ids=["audio", "image"])
@pytest.mark.parametrize(
    "error", [RuntimeError("hunter2"), ConnectionError("hunter2"), TimeoutError("hunter2")], ids=lambda e: type(e).__name__
)
async def test_an_exception_of_an_adapter_passes_the_error_router(
    engine: EngineName, refused_path: tuple[str, ...], raw: str, error: Exception
):
    result, requests = await take(engine, raw, ear=Ear(error), eye=Eye(error))
    assert (result.path, requests) == (refused_path, [])
    assert result.error is not None
    assert result.error.code in get_args(ErrorType)
    assert "hunter2" not in str(result.to_json())
