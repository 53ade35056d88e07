"""Compresses turns that have ended, in a SQLite file: each with what turns of the same contracts have in common as its dictionary."""

from __future__ import annotations

import sqlite3

from interlock.stores import turns_sqlite_statements as sql
from interlock.stores.turns_packing import Contents, common_text, pack_turn, unpack_turn
from interlock.stores.turns_sqlite_transactions import read_entries, read_lines

__all__ = ["compact"]

_DAY_S = 24 * 60 * 60
_LEAST_SAMPLES = 5
"""Of how many sessions there must be turns before they have a dictionary: what most of them have in common is not of one person."""


def compact(db: sqlite3.Connection, now: float, ended_before: float, limit: int) -> int:
    """Compress the contents of turns that ended before a time."""
    dictionaries: dict[str, tuple[int | None, bytes]] = {}
    found = db.execute(sql.UNPACKED, (ended_before, limit)).fetchall()
    for number, fingerprint, ended in found:
        if fingerprint not in dictionaries:
            dictionaries[fingerprint] = _dictionary(db, now, fingerprint)
        dictionary, text = dictionaries[fingerprint]
        db.execute(sql.PACK, (number, dictionary, pack_turn(_contents(db, number), text)))
        for statement in sql.PACKED:
            db.execute(statement, (number,))
        if dictionary is not None:
            db.execute(sql.USE_DICTIONARY, (ended, dictionary))
    return len(found)


def _dictionary(db: sqlite3.Connection, now: float, fingerprint: str) -> tuple[int | None, bytes]:
    """Return the dictionary for turns of these contracts. One is used for a day: it must not outlive the turns of which it was made."""
    known = db.execute(sql.DICTIONARY, (fingerprint, now - _DAY_S)).fetchone()
    if known is not None:
        return known
    samples = [_contents(db, number) for (number,) in db.execute(sql.SAMPLES, (fingerprint,)).fetchall()]
    if len(samples) < _LEAST_SAMPLES:
        return None, b""
    text = common_text(samples)
    return db.execute(sql.INSERT_DICTIONARY, (fingerprint, now, text)).lastrowid, text


def _contents(db: sqlite3.Connection, number: int) -> Contents:
    header, result, contents, dictionary = db.execute(sql.CONTENTS_OF, (number,)).fetchone()
    if contents is not None:
        return unpack_turn(contents, dictionary or b"")
    return Contents(header, result, read_entries(db, number), read_lines(db, number))
