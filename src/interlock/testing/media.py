"""Images and audio for tests and for the tour, generated as data URIs."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping

__all__ = ["MEDIA"]


def slope() -> str:
    """Return a small image with a gradient from dark to bright."""
    return _png(16, 16, b"".join(b"\0" + bytes(range(row, row + 240, 15)) for row in range(16)))


def bomb() -> str:
    """Return a small file whose header claims an image of 60,000 x 60,000 pixels."""
    return _png(60_000, 60_000, b"")


def no_picture() -> str:
    """Return a data URI with the media type of an image whose content is not an image."""
    return _uri("image/png", b"not a picture")


def silence() -> str:
    """Return audio without samples."""
    wave = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 0)
    return _uri("audio/wav", b"RIFF" + struct.pack("<I", 4 + len(wave)) + b"WAVE" + wave)


def long_text() -> str:
    """Return a text that is longer than the agents accept."""
    return "long " * 8000


def _png(width: int, height: int, pixels: bytes) -> str:
    """Encode a greyscale image."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels)) + _chunk(b"IEND", b"")
    return _uri("image/png", b"\x89PNG\r\n\x1a\n" + parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _uri(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


MEDIA: Mapping[str, Callable[[], str]] = {
    "slope": slope,
    "bomb": bomb,
    "no picture": no_picture,
    "silence": silence,
    "long text": long_text,
}
"""The generators, by the name that a scenario uses."""
