"""Lines of turns as single values: those of one write, and the compressed ones of turns that have ended."""

from __future__ import annotations

import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from interlock.errors import StoreCorrupt

__all__ = ["Contents", "common_text", "join_lines", "pack", "pack_turn", "split_lines", "unpack", "unpack_turn"]

_LENGTH = struct.Struct(">I")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[^"]+|"')
"""A string of JSON, or what is between two of them."""
_LEVEL = 9
_LONG = 64
_MOST_TEXT = 30 * 1024
"""What compression looks back over, at most."""


class Contents(NamedTuple):
    """What a turn that has ended leaves: all of it is compressed together."""

    header: bytes
    result: bytes | None
    journal: list[bytes]
    events: list[bytes]


def join_lines(lines: Sequence[bytes]) -> bytes:
    """Return lines as one value, each with its length before it."""
    return b"".join([part for line in lines for part in (_LENGTH.pack(len(line)), line)])


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a value. Raises StoreCorrupt where it is damaged."""
    lines: list[bytes] = []
    at = 0
    try:
        while at < len(data):
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size + length
            lines.append(data[at - length : at])
    except struct.error as error:
        raise StoreCorrupt("The journal or the events of a turn cannot be read. They are left as they are.") from error
    if at != len(data):
        raise StoreCorrupt("The journal or the events of a turn are cut off. They are left as they are.")
    return lines


def pack(lines: Sequence[bytes], dictionary: bytes = b"") -> bytes:
    """Return lines as one compressed value. What they have in common with the dictionary takes hardly any room."""
    compressing = zlib.compressobj(_LEVEL, zdict=dictionary) if dictionary else zlib.compressobj(_LEVEL)
    return compressing.compress(join_lines(lines)) + compressing.flush()


def unpack(packed: bytes, dictionary: bytes = b"") -> list[bytes]:
    """Return the lines of a compressed value. It takes the same dictionary."""
    expanding = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
    try:
        data = expanding.decompress(packed) + expanding.flush()
    except zlib.error as error:
        raise StoreCorrupt("The compressed journal or events of a turn cannot be read. They are left as they are.") from error
    if not expanding.eof:
        raise StoreCorrupt("The compressed journal or events of a turn are cut off. They are left as they are.")
    return split_lines(data)


def pack_turn(contents: Contents, dictionary: bytes) -> bytes:
    """Return the contents of a turn as one compressed value."""
    return pack(_lines_of(contents), dictionary)


def unpack_turn(packed: bytes, dictionary: bytes) -> Contents:
    """Return the contents of a turn."""
    header, count, *lines, result = unpack(packed, dictionary)
    entries = int(count)
    return Contents(header, result[1:] if result else None, lines[:entries], lines[entries:])


def common_text(samples: Sequence[Contents]) -> bytes:
    """Return text that most of these turns have in common, as a dictionary for more such turns.

    What is in fewer of them is left out: it may be personal, and the dictionary may outlive the turn.
    """
    found = Counter(token for sample in samples for token in {token for line in _lines_of(sample) for token in _TOKEN.findall(line)})
    longest = max(samples, key=lambda sample: sum(map(len, _lines_of(sample))))
    seen: set[bytes] = set()
    lines: dict[bytes, None] = {}
    for line in _lines_of(longest):
        tokens = [token for token in _TOKEN.findall(line) if 2 * found[token] > len(samples) and token not in seen]
        lines[b"".join(tokens)] = None
        # Once is enough: compression looks back over little more than 30 kB.
        seen.update(token for token in tokens if len(token) > _LONG)
    return b"".join(lines)[-_MOST_TEXT:]


def _lines_of(contents: Contents) -> list[bytes]:
    """Return the result last: its values are in the last events."""
    result = b"" if contents.result is None else b"=" + contents.result
    return [contents.header, b"%d" % len(contents.journal), *contents.journal, *contents.events, result]
