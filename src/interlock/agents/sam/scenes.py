"""What sam is shown with: each kind of input, and what becomes of bad ones."""

from __future__ import annotations

import base64
import struct
import zlib

from interlock.agents.sam.invariants import NOT_A_PICTURE, SILENT_WAV
from interlock.runtime.agent import Scene

__all__ = ["SCENES"]


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(width: int, height: int, pixels: bytes) -> str:
    """Write a picture in shades of grey as a data URI."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + parts).decode()


SLOPE = _png(16, 16, b"".join(b"\0" + bytes(range(row, row + 240, 15)) for row in range(16)))
BOMB = _png(60_000, 60_000, b"")

SCENES = (
    Scene(title="text in, one model call, a reply", text="What does an interlocking do?"),
    Scene(title="an image: checked, made small, shown to the model", text=SLOPE),
    Scene(title="a damaged image: typed, and the model is never asked", text=NOT_A_PICTURE, error="media_malformed"),
    Scene(title="a picture of 60,000 x 60,000 in a few bytes: refused unopened", text=BOMB, error="media_bomb"),
    Scene(title="speech where nobody is set up to hear it", text=SILENT_WAV, error="unsupported_media", settings={"transcriber": "off"}),
    Scene(title="a turn that may not ask a model", text="Hello?", error="budget_exceeded", settings={"max_model_calls": 0}),
)
