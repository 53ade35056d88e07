"""Media in text: data URIs, going by what they declare and by their bytes; and WAV, which can be checked without decoding."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_to_bytes

from interlock.errors import MediaMalformed

__all__ = ["DataUri", "Wav", "check_audio", "sniff"]

_HEAD = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)((?:;[a-z0-9._+-]+=[^;,]*)*)(;base64)?,", re.IGNORECASE)
_SNIFFED = 48  # characters of base64: 36 bytes, enough for every signature below

_ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-flac": "audio/flac",
}
_KNOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "audio/wav", "audio/mpeg", "audio/ogg", "audio/flac"})


@dataclass(frozen=True)
class DataUri:
    """An input that carries its content and its declared type."""

    media_type: str
    is_base64: bool
    payload: str

    @classmethod
    def read(cls, raw: str) -> DataUri | None:
        """Read a data URI; None for plain text."""
        head = _HEAD.match(raw) if raw[:5].lower() == "data:" else None
        if head is None:
            return None
        declared = head[1].lower()
        return cls(_ALIASES.get(declared, declared), bool(head[3]), raw[head.end() :])

    @property
    def kind(self) -> Literal["text", "audio", "image"]:
        """Classify by the declared type, or by the bytes where that names neither audio nor image."""
        for candidate in (self.media_type, sniff(self._first_bytes()) or ""):
            if candidate.startswith("image/"):
                return "image"
            if candidate.startswith("audio/"):
                return "audio"
        return "text"

    @property
    def is_known(self) -> bool:
        """Whether this is a type of media that is recognised by its bytes."""
        return self.media_type in _KNOWN

    def content(self) -> bytes | None:
        """Decode the payload; None where it is damaged."""
        if not self.is_base64:
            return unquote_to_bytes(self.payload)
        try:
            return base64.b64decode(self.payload, validate=True)
        except (binascii.Error, ValueError):
            return None

    def _first_bytes(self) -> bytes:
        return DataUri(self.media_type, self.is_base64, self.payload[:_SNIFFED]).content() or b""


def sniff(content: bytes) -> str | None:
    """Recognise a type of media by its first bytes."""
    signatures = {
        b"\x89PNG\r\n\x1a\n": "image/png",
        b"\xff\xd8\xff": "image/jpeg",
        b"GIF87a": "image/gif",
        b"GIF89a": "image/gif",
        b"ID3": "audio/mpeg",
        b"\xff\xfb": "audio/mpeg",
        b"\xff\xf3": "audio/mpeg",
        b"OggS": "audio/ogg",
        b"fLaC": "audio/flac",
    }
    if content[:4] == b"RIFF":
        return {b"WAVE": "audio/wav", b"WEBP": "image/webp"}.get(content[8:12])
    return next((found for signature, found in signatures.items() if content.startswith(signature)), None)


_STREAMED = 0x7FFF_0000
"""From here on a size is one that was written before anybody knew: 0xffffffff, or espeak's and arecord's two gigabytes."""

_EXTENSIBLE = 0xFFFE
_BY_SAMPLE = frozenset({1, 3, 6, 7})  # PCM, float, A-law, u-law: these keep whole samples, others blocks of them


@dataclass(frozen=True, kw_only=True)
class Wav:
    """A WAV file, taken apart but not decoded."""

    encoding: int
    """1 is PCM, 3 is floating point."""
    channels: int
    rate: int
    width: int
    """Bytes of a sample, 0 where samples are packed."""
    block: int
    """Bytes of a sample of every channel, or of a packed block."""
    data: bytes

    @classmethod
    def read(cls, content: bytes) -> Wav:
        """Read a WAV; one that is cut off or contradicts itself is a MediaMalformed."""
        form = None
        for kind, chunk in _wav_chunks(content):
            if kind == b"fmt ":
                form = chunk
            elif kind == b"data":
                if form is None:
                    raise MediaMalformed("The WAV has sound before it says what kind of sound.")
                return cls._of(form, chunk)
        raise MediaMalformed("The WAV has no sound in it.")

    @classmethod
    def _of(cls, form: bytes, data: bytes) -> Wav:
        try:
            encoding, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", form)
            if encoding == _EXTENSIBLE:
                (encoding,) = struct.unpack_from("<H", form, 24)
        except struct.error as error:
            raise MediaMalformed("The WAV does not say what kind of sound it has.") from error
        width = (bits + 7) // 8 if encoding in _BY_SAMPLE else 0
        if not channels or not rate or not block or (encoding in _BY_SAMPLE and (not width or block != channels * width)):
            raise MediaMalformed("The WAV contradicts itself in its channels, rate or width.")
        return cls(encoding=encoding, channels=channels, rate=rate, width=width, block=block, data=data)

    @property
    def seconds(self) -> float:
        """How long it lasts, where samples are not packed."""
        return len(self.data) / self.block / self.rate


def _wav_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Walk the chunks, none of which may be cut off; sizes that were never filled in reach to the end."""
    if sniff(content) != "audio/wav":
        raise MediaMalformed("The audio is not a WAV.")
    (size,) = struct.unpack_from("<I", content, 4)
    is_streamed = not size or size >= _STREAMED
    if not is_streamed and 8 + size > len(content) + 1:  # the last byte of padding is often left out
        raise MediaMalformed("The WAV is cut off.")
    last = len(content) if is_streamed else min(8 + size, len(content))
    at = 12
    while at + 8 <= last:
        kind, size = struct.unpack_from("<4sI", content, at)
        end = at + 8 + size
        if kind == b"data" and (size >= _STREAMED or (is_streamed and not size)):
            end = last
        if end > last:
            raise MediaMalformed("A chunk of the WAV is cut off.")
        yield kind, content[at + 8 : end]
        at = end + (size & 1)


def check_audio(content: bytes, *, media_type: str) -> None:
    """Refuse audio that can be seen to be damaged without decoding it: a MediaMalformed."""
    if media_type == "audio/wav":
        Wav.read(content)
