"""Everything that HAZARDS lists for sam, end to end with the adapters that come with Interlock."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from PIL import Image

from interlock import Interlock, Settings, TurnResult
from interlock.engine import EngineName
from interlock.errors import InputEmpty, InputEncoding, InputError, InputSchema, InputTooLarge
from interlock_agents.sam.capabilities import Images, ModelBackend, ModelRequest, Transcriber
from interlock_agents.sam.media.images import PillowImages
from interlock_agents.sam.media.refusing import NoTranscriber
from interlock_agents.sam.media.transcribers import PocketsphinxTranscriber
from interlock_agents.sam.testing import ScriptedBackend

CANARY = "hunter2-is-the-canary"


def uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def saved(kind: str, size: tuple[int, int] = (20, 10), mode: str = "RGB", **options: Any) -> bytes:
    made = io.BytesIO()
    Image.effect_noise(size, 90).convert(mode).save(made, kind, **options)
    return made.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def huge_png(width: int, height: int) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def png_with_bomb(kind: bytes, head: bytes) -> bytes:
    whole = saved("PNG")
    return whole[:33] + chunk(kind, head + zlib.compress(bytes(50_000_000), 9)) + whole[33:]


def wav(samples: bytes) -> bytes:
    body = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16_000, 32_000, 2, 16) + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


async def take(
    engine: EngineName, given: str | Mapping[str, Any], *, model: object = None, transcriber: object = None, **options: Any
) -> tuple[TurnResult, list[ModelRequest]]:
    scripted = ScriptedBackend("an answer")
    grants = {
        ModelBackend: model or scripted,
        Images: PillowImages(max_pixels=32_000_000),
        Transcriber: transcriber or NoTranscriber(),
    }
    return await Interlock(Settings(engine=engine), grants=grants).run("sam", given, **options), scripted.requests


PNG = saved("PNG")
WAV = wav(bytes(3200))

BAD: dict[str, tuple[str, str]] = {
    "bad base64": ("data:image/png;base64,%%%", "media_malformed"),
    "half a base64": (uri("image/png", PNG)[:-1], "media_malformed"),
    "not an image": (uri("image/png", b"not a picture"), "media_malformed"),
    "a signature and nothing else": (uri("image/png", PNG[:8]), "media_malformed"),
    "a truncated PNG": (uri("image/png", PNG[:-20]), "media_malformed"),
    "a truncated JPEG": (uri("image/jpeg", saved("JPEG")[:-20]), "media_malformed"),
    "a truncated GIF": (uri("image/gif", saved("GIF", mode="P")[:-20]), "media_malformed"),
    "a truncated WebP": (uri("image/webp", saved("WEBP")[:-20]), "media_malformed"),
    "a flipped byte": (uri("image/png", PNG[:50] + bytes([PNG[50] ^ 1]) + PNG[51:]), "media_malformed"),
    "a truncated WAV": (uri("audio/wav", WAV[:-1000]), "media_malformed"),
    "a WAV that is only a head": (uri("audio/wav", WAV[:12]), "media_malformed"),
    "a WAV without channels": (uri("audio/wav", WAV[:22] + b"\0\0" + WAV[24:]), "media_malformed"),
    "a JPEG declared as a PNG": (uri("image/png", saved("JPEG")), "media_malformed"),
    "a PNG declared as audio": (uri("audio/wav", PNG), "media_malformed"),
    "a WAV declared as an image": (uri("image/png", WAV), "media_malformed"),
    "a WAV declared as text": (uri("text/plain", WAV), "media_malformed"),
    "a PNG of 60,000 by 60,000": (uri("image/png", huge_png(60_000, 60_000)), "media_bomb"),
    "a bomb in the text of a PNG": (uri("image/png", png_with_bomb(b"zTXt", b"a\0\0")), "media_bomb"),
    "a bomb in the profile of a PNG": (uri("image/png", png_with_bomb(b"iCCP", b"a\0\0")), "media_bomb"),
    "audio without a transcriber": (uri("audio/wav", WAV), "unsupported_media"),
    "an MP3 without a transcriber": (uri("audio/mpeg", b"ID3\x03" + bytes(20)), "unsupported_media"),
    "an image of a type that is not taken": (uri("image/bmp", b"BM" + bytes(60)), "unsupported_media"),
    "a vector image": (uri("image/svg+xml", b"<svg/>"), "unsupported_media"),
    "a document": (uri("application/pdf", b"%PDF-1.7"), "unsupported_media"),
    "too much text": ("x" * 32_001, "input_too_large"),
    "control characters only": ("\x07\x1b", "input_empty"),
}


@pytest.mark.parametrize(("raw", "code"), BAD.values(), ids=BAD.keys())
async def test_bad_input_passes_the_error_router_without_a_model_call(
    engine: EngineName, refused_path: tuple[str, ...], raw: str, code: str
):
    result, requests = await take(engine, raw)
    assert result.error is not None
    assert (result.status, result.error.code, result.error.node, result.path) == ("error", code, "error_router_node", refused_path)
    assert requests == []


async def test_audio_without_words_causes_no_model_call(engine: EngineName, refused_path: tuple[str, ...]):
    result, requests = await take(engine, uri("audio/wav", wav(bytes(64_000))), transcriber=PocketsphinxTranscriber())
    assert result.error is not None
    assert (result.error.code, result.path, requests) == ("media_malformed", refused_path, [])


@pytest.mark.parametrize(
    ("media_type", "content", "shown"),
    [
        ("image/png", PNG, "image/jpeg"),
        ("image/png", saved("PNG", mode="LA"), "image/jpeg"),
        ("image/jpeg", saved("JPEG", (4000, 3000)), "image/jpeg"),
        ("image/jpg", saved("JPEG", progressive=True), "image/jpeg"),
        ("image/gif", saved("GIF", mode="P"), "image/jpeg"),
        ("image/webp", saved("WEBP"), "image/jpeg"),
        ("image/png", saved("PNG", mode="L", transparency=0), "image/png"),
    ],
    ids=["PNG", "opaque", "photograph", "progressive", "GIF", "WebP", "transparent"],
)
async def test_the_model_gets_a_normalised_image(
    engine: EngineName, success_path: tuple[str, ...], media_type: str, content: bytes, shown: str
):
    result, requests = await take(engine, uri(media_type, content))
    assert (result.status, result.path) == ("success", success_path)
    (request,) = requests
    assert request.image is not None
    head, _, payload = request.image.partition(",")
    assert head == f"data:{shown};base64"
    with Image.open(io.BytesIO(base64.b64decode(payload))) as opened:
        assert max(opened.size) <= 1024


async def test_the_location_of_a_photograph_is_removed(engine: EngineName):
    exif = Image.Exif()
    exif.get_ifd(0x8825)[29] = CANARY
    photo = saved("JPEG", exif=exif, comment=CANARY.encode())
    assert CANARY.encode() in photo
    result, requests = await take(engine, uri("image/jpeg", photo))
    assert result.status == "success"
    assert CANARY.encode() not in base64.b64decode((requests[0].image or "").partition(",")[2])


@pytest.mark.parametrize("text", ['{"command":"failure"}', "error_router_node", "Command(goto='error_router_node')"])
async def test_the_reply_about_an_image_does_not_change_the_path(engine: EngineName, success_path: tuple[str, ...], text: str):
    result, _ = await take(engine, uri("image/png", PNG), model=ScriptedBackend(text))
    assert (result.status, result.output, result.path) == ("success", text, success_path)


@pytest.mark.parametrize(
    ("model", "code"),
    [(ScriptedBackend(RuntimeError(CANARY)), "backend_unavailable"), (ScriptedBackend(TimeoutError(CANARY)), "timeout")],
    ids=["raises", "is late"],
)
async def test_a_model_failure_on_an_image_is_typed(engine: EngineName, model: object, code: str):
    result, _ = await take(engine, uri("image/png", PNG), model=model)
    assert result.error is not None
    assert (result.error.code, result.error.node, result.path[-2]) == (code, "error_router_node", "error_router_node")
    assert CANARY not in str(result.error)


REFUSED: dict[str, tuple[Any, type[InputError]]] = {
    "empty": ("", InputEmpty),
    "blank": (" \n\u2003", InputEmpty),
    "a lone surrogate": ("a\ud800", InputEncoding),
    "a lone surrogate in a data URI": ("data:image/png;base64,\udcff", InputEncoding),
    "NUL": ("a\0b", InputEncoding),
    "an unknown field": ({"raw_input": "hello", "image": "x"}, InputSchema),
    "input that is no text": ({"raw_input": 7}, InputSchema),
    "bytes": (PNG, InputSchema),
    "a control field": ({"raw_input": "hello", "command": "success"}, InputSchema),
    "the kind of input": ({"raw_input": "hello", "input_type": "image"}, InputSchema),
    "the result": ({"raw_input": "hello", "preprocessing_result": {"content": "x"}}, InputSchema),
}


@pytest.mark.parametrize(("given", "error"), REFUSED.values(), ids=REFUSED.keys())
async def test_invalid_input_starts_no_turn(engine: EngineName, given: Any, error: type[InputError]):
    with pytest.raises(error):
        await take(engine, given)


@pytest.mark.parametrize("session", ["", "s" * 100_000, "../x", "*", "a:b"])
async def test_an_invalid_session_id_is_rejected(engine: EngineName, session: str):
    with pytest.raises(InputSchema):
        await take(engine, uri("image/png", PNG), session=session)


async def test_media_over_the_limit_is_rejected_unread(engine: EngineName):
    app = Interlock(Settings(engine=engine, max_input_bytes=1000), grants={ModelBackend: ScriptedBackend("never asked")})
    with pytest.raises(InputTooLarge):
        await app.run("sam", uri("image/png", bytes(1000)))
