"""The SQL of the turn store on SQLite."""

from __future__ import annotations

__all__ = [
    "ANSWER",
    "APPEND_ENTRY",
    "ASK_TO_END",
    "BY_KEY",
    "BY_NUMBER",
    "BY_TURN",
    "CAN_CLAIM",
    "CLAIM",
    "COLUMNS",
    "CONTENTS",
    "CONTENTS_OF",
    "COUNTS",
    "DELETE",
    "DELETE_DICTIONARIES",
    "DELETE_RESULT",
    "DICTIONARY",
    "END",
    "ENDED_TURN",
    "EVENTS",
    "FIND_EXPIRED",
    "FIND_READY",
    "GIVE_BACK",
    "HELD",
    "HIDE",
    "INSERT",
    "INSERT_DICTIONARY",
    "INSERT_ENTRIES",
    "INSERT_EVENTS",
    "INSERT_HEADER",
    "JOURNAL",
    "LOAD",
    "NEXT_POSITION",
    "NEXT_READY",
    "OLD",
    "ONLY",
    "OPEN_OF_PLACE",
    "PACK",
    "PACKED",
    "PROGRESS",
    "RENEW",
    "SAMPLES",
    "SAVE_RESULT",
    "SAVE_STATE",
    "STATE",
    "TURN",
    "UNPACKED",
    "USE_DICTIONARY",
]

COLUMNS = (
    "turns.turn, agent, session, header, turns.fingerprint, turns.tenant, role, key, digest, principal, build, is_exclusive, policy, due, "
    "position, status, created, epoch, attempts, owner, lease_until, used, is_cancel_wanted, is_hidden, answer, started, ended, "
    "result, code, contents, text, turns.number, place, state, state_by, sessions.fingerprint"
)
_CONTENTS = "LEFT JOIN packed ON packed.turn = turns.number LEFT JOIN dictionaries ON dictionaries.number = dictionary"
_WRITTEN = "LEFT JOIN headers ON headers.turn = turns.number LEFT JOIN results ON results.turn = turns.number"
_ROWS = f"turns JOIN sessions ON sessions.number = place {_WRITTEN} {_CONTENTS}"
TURN = f"SELECT {COLUMNS} FROM {_ROWS} "  # noqa: S608 - constants
BY_TURN = TURN + "WHERE turns.turn = ?"
BY_KEY = TURN + "WHERE turns.tenant = ? AND key = ?"
BY_NUMBER = TURN + "WHERE turns.number = ?"
OPEN_OF_PLACE = TURN + ("WHERE place = ? AND status IN ('queued', 'ready', 'running', 'waiting') AND is_exclusive = 1 ORDER BY position")

NEXT_POSITION = (
    "INSERT INTO sessions (tenant, agent, session, last_position) VALUES (?, ?, ?, 1) "
    "ON CONFLICT (tenant, agent, session) DO UPDATE SET last_position = last_position + 1 "
    "RETURNING number, last_position, state, state_by, fingerprint"
)
INSERT = (
    "INSERT INTO turns (turn, place, position, tenant, role, key, digest, principal, fingerprint, build, is_exclusive, policy, due, "
    "status, created, startable, epoch, attempts, owner, lease_until, started) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_HEADER = "INSERT INTO headers (turn, header) VALUES (?, ?)"

HELD = "SELECT number, place, status, epoch, is_cancel_wanted, fingerprint, owner, turn FROM turns WHERE turn = ?"
COUNTS = (
    "SELECT (SELECT coalesce(max(seq) + 1, 0) FROM journal WHERE turn = ?1), (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE turn = ?1)"
)
INSERT_ENTRIES = "INSERT INTO journal (turn, seq, epoch, entries) VALUES (?, ?, ?, ?)"
INSERT_EVENTS = "INSERT INTO events (turn, seq, epoch, at, lines) VALUES (?, ?, ?, ?, ?)"
APPEND_ENTRY = "INSERT INTO journal (turn, seq, epoch, entries) SELECT ?1, coalesce(max(seq) + 1, 0), ?2, ?3 FROM journal WHERE turn = ?1"

END = "UPDATE turns SET status = ?, code = ?, owner = NULL, lease_until = NULL, ended = ? WHERE number = ?"
SAVE_RESULT = "INSERT OR REPLACE INTO results (turn, result) VALUES (?, ?)"
DELETE_RESULT = "DELETE FROM results WHERE turn = ?"
SAVE_STATE = "UPDATE sessions SET state = ?, state_by = ?, fingerprint = ? WHERE number = ?"
NEXT_READY = (
    "UPDATE turns SET status = 'ready' WHERE status = 'queued' AND number = (SELECT number FROM turns WHERE place = ? "
    "AND status IN ('queued', 'ready', 'running', 'waiting') AND is_exclusive = 1 ORDER BY position LIMIT 1)"
)
GIVE_BACK = "UPDATE turns SET status = 'ready', owner = NULL, lease_until = NULL WHERE number = ?"
# As `seconds_used`: no more than one lease is added.
_USED = "used = used + coalesce(max(0.0, min(:lease_s, :now - (lease_until - :lease_s))), 0.0)"
RENEW = f"UPDATE turns SET {_USED}, lease_until = :now + :lease_s WHERE number = :number"  # noqa: S608 - constants
ANSWER = "UPDATE turns SET status = 'ready', answer = ?, used = 0 WHERE number = ?"
HIDE = "UPDATE turns SET is_hidden = 1 WHERE number = ?"
ASK_TO_END = "UPDATE turns SET is_cancel_wanted = 1 WHERE number = ?"

CLAIM = (
    f"UPDATE turns SET status = 'running', epoch = epoch + 1, attempts = attempts + 1, owner = :worker, {_USED}, "  # noqa: S608 - constants
    "lease_until = :now + :lease_s, started = coalesce(started, :now) WHERE number = :number"
)
_SERVED = "fingerprint IN (SELECT value FROM json_each(:fingerprints))"
# Without the name of the index, SQLite reads the whole table.
_LEASED = "turns INDEXED BY turns_leased"
_EXPIRED = f"status = 'running' AND (lease_until <= :now OR lease_until > :latest) AND (is_cancel_wanted = 1 OR {_SERVED})"
# Not `startable <= :now`: a turn that was accepted before the clock was set back can start.
_READY = f"status = 'ready' AND (due IS NULL OR due <= :now) AND {_SERVED}"
ONLY = " AND turn IN (SELECT value FROM json_each(:only))"
FIND_EXPIRED = f"SELECT number, place, is_cancel_wanted FROM {_LEASED} WHERE {_EXPIRED}"  # noqa: S608 - constants
FIND_READY = f"SELECT number FROM turns WHERE {_READY}"  # noqa: S608 - constants
CAN_CLAIM = f"SELECT EXISTS (SELECT 1 FROM {_LEASED} WHERE {_EXPIRED}) OR EXISTS (SELECT 1 FROM turns WHERE {_READY})"  # noqa: S608 - constants

JOURNAL = "SELECT entries FROM journal WHERE turn = ? ORDER BY seq"
EVENTS = "SELECT seq, lines FROM events WHERE turn = ? AND seq >= ? ORDER BY seq LIMIT ?"
CONTENTS = f"SELECT turns.number, contents, text FROM turns {_CONTENTS} WHERE turns.turn = ?"  # noqa: S608 - constants
CONTENTS_OF = f"SELECT header, result, contents, text FROM {_ROWS} WHERE turns.number = ?"  # noqa: S608 - constants
UNPACKED = "SELECT number, fingerprint, ended FROM turns WHERE ended < ? AND is_packed = 0 ORDER BY ended LIMIT ?"
PACK = "INSERT INTO packed (turn, dictionary, contents) VALUES (?, ?, ?)"
PACKED = (
    "UPDATE turns SET is_packed = 1 WHERE number = ?",
    "DELETE FROM headers WHERE turn = ?",
    DELETE_RESULT,
    "DELETE FROM journal WHERE turn = ?",
    "DELETE FROM events WHERE turn = ?",
)
DICTIONARY = "SELECT number, text FROM dictionaries WHERE fingerprint = ? AND made > ? ORDER BY made DESC LIMIT 1"
INSERT_DICTIONARY = "INSERT INTO dictionaries (fingerprint, made, last_ended, text) VALUES (?, ?, 0, ?)"
USE_DICTIONARY = "UPDATE dictionaries SET last_ended = max(last_ended, ?) WHERE number = ?"
# A dictionary was used for turns that ended until `last_ended`. If all that are left ended later, none of them uses it.
DELETE_DICTIONARIES = "DELETE FROM dictionaries WHERE last_ended < coalesce((SELECT min(ended) FROM turns WHERE ended IS NOT NULL), 1e99)"
# Of turns of different sessions. Without NOT INDEXED, SQLite reads the whole table in the order of the sessions.
SAMPLES = (
    "SELECT max(number) FROM turns NOT INDEXED "
    "WHERE fingerprint = ? AND ended IS NOT NULL AND number > (SELECT max(number) FROM turns) - 1000 "
    "GROUP BY place LIMIT 8"
)
PROGRESS = (
    "SELECT turn, status, (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE events.turn = number) FROM turns "
    "WHERE turn IN (SELECT value FROM json_each(?))"
)
# Without the name of the index, SQLite reads the whole table.
LOAD = (
    "SELECT agent, status, count(*), min(created) FROM turns INDEXED BY turns_open JOIN sessions ON sessions.number = place "
    "WHERE status IN ('queued', 'ready', 'running', 'waiting') GROUP BY agent, status"
)
STATE = "SELECT state, state_by, fingerprint FROM sessions WHERE tenant = ? AND agent = ? AND session = ?"
ENDED_TURN = "SELECT number FROM turns WHERE turn = ? AND ended IS NOT NULL"
OLD = "SELECT number FROM turns WHERE ended < ? ORDER BY ended, number LIMIT ?"
DELETE = tuple(
    f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
    for table, column in (*((table, "turn") for table in ("journal", "events", "packed", "headers", "results")), ("turns", "number"))
)
