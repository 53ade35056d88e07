"""Journals and events of turns that have ended, compressed into one value each."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from interlock.errors import StoreCorrupt

__all__ = ["pack", "unpack"]

_LENGTH = struct.Struct(">I")


def pack(lines: Sequence[bytes]) -> bytes:
    """Return lines as one value, each with its length before it."""
    return zlib.compress(b"".join([part for line in lines for part in (_LENGTH.pack(len(line)), line)]))


def unpack(packed: bytes) -> list[bytes]:
    """Return the lines of a packed value."""
    lines: list[bytes] = []
    try:
        data, at = zlib.decompress(packed), 0
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            lines.append(data[at - length : at])
    except (zlib.error, struct.error) as error:
        raise StoreCorrupt("The compressed journal or events of a turn cannot be read. They are left as they are.") from error
    if at != len(data):
        raise StoreCorrupt("The compressed journal or events of a turn are cut off. They are left as they are.")
    return lines
