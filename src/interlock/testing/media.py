"""Pictures and sounds for tests and for the tour, made when they are needed, as data URIs."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping

__all__ = ["MEDIA"]


def slope() -> str:
    """Make a small picture that goes from dark to bright."""
    return _png(16, 16, b"".join(b"\0" + bytes(range(row, row + 240, 15)) for row in range(16)))


def bomb() -> str:
    """Make a few bytes that say they are a picture of 60,000 x 60,000."""
    return _png(60_000, 60_000, b"")


def no_picture() -> str:
    """Make what says that it is a picture and is none."""
    return _uri("image/png", b"not a picture")


def silence() -> str:
    """Make a sound in which nothing is said."""
    wave = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 0)
    return _uri("audio/wav", b"RIFF" + struct.pack("<I", 4 + len(wave)) + b"WAVE" + wave)


def long_text() -> str:
    """Make a text that is longer than agents read."""
    return "long " * 8000


def _png(width: int, height: int, pixels: bytes) -> str:
    """Write a picture in shades of grey."""
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
"""What there is, by its name in a scene."""
