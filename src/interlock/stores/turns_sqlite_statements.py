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
    "COUNTS",
    "DELETE",
    "END",
    "EVENTS",
    "FIND_EXPIRED",
    "FIND_READY",
    "GIVE_BACK",
    "HELD",
    "HIDE",
    "INSERT",
    "INSERT_ENTRY",
    "INSERT_EVENT",
    "INSERT_HEADER",
    "JOURNAL",
    "NEXT_POSITION",
    "NEXT_READY",
    "OLD",
    "ONLY",
    "OPEN_OF_PLACE",
    "PACK",
    "PACKED",
    "PACKED_EVENTS",
    "PACKED_JOURNAL",
    "RENEW",
    "SAVE_STATE",
    "STATE",
    "TURN",
    "UNPACKED",
]

COLUMNS = (
    "turns.turn, agent, session, header, turns.fingerprint, turns.tenant, role, key, digest, principal, build, is_exclusive, policy, due, "
    "deadline, position, status, created, epoch, attempts, owner, lease_until, is_cancel_wanted, is_hidden, answer, started, ended, "
    "result, code, turns.number, place, state, state_by, sessions.fingerprint"
)
TURN = f"SELECT {COLUMNS} FROM turns JOIN sessions ON sessions.number = place JOIN headers ON headers.turn = turns.number "  # noqa: S608 - constants
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
    "deadline, status, created, startable, epoch, attempts, owner, lease_until, started) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_HEADER = "INSERT INTO headers (turn, header) VALUES (?, ?)"

HELD = "SELECT number, place, status, epoch, is_cancel_wanted, fingerprint, owner, turn FROM turns WHERE turn = ?"
COUNTS = (
    "SELECT (SELECT coalesce(max(seq) + 1, 0) FROM journal WHERE turn = ?1), (SELECT coalesce(max(seq) + 1, 0) FROM events WHERE turn = ?1)"
)
INSERT_ENTRY = "INSERT INTO journal (turn, seq, epoch, entry) VALUES (?, ?, ?, ?)"
INSERT_EVENT = "INSERT INTO events (turn, seq, epoch, at, line) VALUES (?, ?, ?, ?, ?)"
APPEND_ENTRY = "INSERT INTO journal (turn, seq, epoch, entry) SELECT ?1, coalesce(max(seq) + 1, 0), ?2, ?3 FROM journal WHERE turn = ?1"

END = "UPDATE turns SET status = ?, result = ?, code = ?, owner = NULL, lease_until = NULL, ended = ? WHERE number = ?"
SAVE_STATE = "UPDATE sessions SET state = ?, state_by = ?, fingerprint = ? WHERE number = ?"
NEXT_READY = (
    "UPDATE turns SET status = 'ready' WHERE status = 'queued' AND number = (SELECT number FROM turns WHERE place = ? "
    "AND status IN ('queued', 'ready', 'running', 'waiting') AND is_exclusive = 1 ORDER BY position LIMIT 1)"
)
GIVE_BACK = "UPDATE turns SET status = 'ready', owner = NULL, lease_until = NULL WHERE number = ?"
RENEW = "UPDATE turns SET lease_until = ? WHERE number = ?"
ANSWER = "UPDATE turns SET status = 'ready', answer = ? WHERE number = ?"
HIDE = "UPDATE turns SET is_hidden = 1 WHERE number = ?"
ASK_TO_END = "UPDATE turns SET is_cancel_wanted = 1 WHERE number = ?"

CLAIM = (
    "UPDATE turns SET status = 'running', epoch = epoch + 1, attempts = attempts + 1, owner = ?, lease_until = ?, "
    "started = coalesce(started, ?) WHERE number = ?"
)
_SERVED = "fingerprint IN (SELECT value FROM json_each(:fingerprints))"
# Without the name of the index, SQLite reads the whole table.
_LEASED = "turns INDEXED BY turns_leased"
_EXPIRED = f"status = 'running' AND lease_until <= :now AND (is_cancel_wanted = 1 OR {_SERVED})"
_READY = f"status = 'ready' AND startable <= :now AND {_SERVED}"
ONLY = " AND turn IN (SELECT value FROM json_each(:only))"
FIND_EXPIRED = f"SELECT number, place, is_cancel_wanted FROM {_LEASED} WHERE {_EXPIRED}"  # noqa: S608 - constants
FIND_READY = f"SELECT number FROM turns WHERE {_READY}"  # noqa: S608 - constants
CAN_CLAIM = f"SELECT EXISTS (SELECT 1 FROM {_LEASED} WHERE {_EXPIRED}) OR EXISTS (SELECT 1 FROM turns WHERE {_READY})"  # noqa: S608 - constants

JOURNAL = "SELECT entry FROM journal WHERE turn = ? ORDER BY seq"
EVENTS = "SELECT line FROM events WHERE turn = ? AND seq >= ? ORDER BY seq LIMIT ?"
PACKED_JOURNAL = "SELECT number, journal FROM turns LEFT JOIN packed ON packed.turn = number WHERE turns.turn = ?"
PACKED_EVENTS = "SELECT number, events FROM turns LEFT JOIN packed ON packed.turn = number WHERE turns.turn = ?"
UNPACKED = "SELECT number FROM turns WHERE ended < ? AND is_packed = 0 ORDER BY ended LIMIT ?"
PACK = "INSERT INTO packed (turn, journal, events) VALUES (?, ?, ?)"
PACKED = (
    "UPDATE turns SET is_packed = 1 WHERE number = ?",
    "DELETE FROM journal WHERE turn = ?",
    "DELETE FROM events WHERE turn = ?",
)
STATE = "SELECT state, state_by, fingerprint FROM sessions WHERE tenant = ? AND agent = ? AND session = ?"
OLD = "SELECT number FROM turns WHERE ended < ? ORDER BY ended, number LIMIT ?"
DELETE = tuple(
    f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
    for table, column in (("journal", "turn"), ("events", "turn"), ("packed", "turn"), ("headers", "turn"), ("turns", "number"))
)
