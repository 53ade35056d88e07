"""Data URIs: media inside text. The kind of media follows from the declared type, or else from the first bytes."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_to_bytes

__all__ = ["DataUri", "sniff"]

_HEAD = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)((?:;[a-z0-9._+-]+=[^;,]*)*)(;base64)?,", re.IGNORECASE)
_SNIFFED = 48  # characters of base64, which are 36 bytes: enough for every signature below

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
    """A parsed data URI."""

    media_type: str
    is_base64: bool
    payload: str

    @classmethod
    def read(cls, raw: str) -> DataUri | None:
        """Parse a data URI. Returns None for any other text."""
        head = _HEAD.match(raw) if raw[:5].lower() == "data:" else None
        if head is None:
            return None
        declared = head[1].lower()
        return cls(_ALIASES.get(declared, declared), bool(head[3]), raw[head.end() :])

    @property
    def kind(self) -> Literal["text", "audio", "image"]:
        """The kind by the declared type, or by the first bytes where the declared type is neither audio nor image."""
        for candidate in (self.media_type, sniff(self._first_bytes()) or ""):
            if candidate.startswith("image/"):
                return "image"
            if candidate.startswith("audio/"):
                return "audio"
        return "text"

    @property
    def is_known(self) -> bool:
        """Whether `sniff` can recognise this type of media."""
        return self.media_type in _KNOWN

    def content(self) -> bytes | None:
        """Decode the payload. Returns None where it is not valid base64."""
        if not self.is_base64:
            return unquote_to_bytes(self.payload)
        try:
            return base64.b64decode(self.payload, validate=True)
        except (binascii.Error, ValueError):
            return None

    def _first_bytes(self) -> bytes:
        return DataUri(self.media_type, self.is_base64, self.payload[:_SNIFFED]).content() or b""


def sniff(content: bytes) -> str | None:
    """Return the type of media that the first bytes show, or None."""
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
