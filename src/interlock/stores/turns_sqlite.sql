-- The tables of the turn store. Rows refer to each other by number, so that the indexes stay small.

CREATE TABLE sessions (
    number        INTEGER PRIMARY KEY,
    tenant        TEXT NOT NULL,
    agent         TEXT NOT NULL,
    session       TEXT NOT NULL,
    last_position INTEGER NOT NULL,
    state         BLOB,
    state_by      TEXT,
    fingerprint   TEXT,
    UNIQUE (tenant, agent, session)
) STRICT;

CREATE TABLE turns (
    number           INTEGER PRIMARY KEY AUTOINCREMENT,
    turn             TEXT NOT NULL UNIQUE,
    place            INTEGER NOT NULL REFERENCES sessions (number),
    position         INTEGER NOT NULL,
    tenant           TEXT NOT NULL,
    role             TEXT,
    key              TEXT,
    digest           TEXT NOT NULL,
    principal        TEXT,
    fingerprint      TEXT NOT NULL,
    build            TEXT NOT NULL,
    is_exclusive     INTEGER NOT NULL,
    policy           TEXT NOT NULL,
    due              REAL,
    status           TEXT NOT NULL,
    created          REAL NOT NULL,
    startable        REAL NOT NULL,  -- when it may start: the later of `created` and `due`
    epoch            INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    owner            TEXT,
    lease_until      REAL,
    used             REAL NOT NULL DEFAULT 0,
    is_cancel_wanted INTEGER NOT NULL DEFAULT 0,
    is_hidden        INTEGER NOT NULL DEFAULT 0,
    is_packed        INTEGER NOT NULL DEFAULT 0,
    answer           BLOB,
    started          REAL,
    ended            REAL,
    code             TEXT,
    UNIQUE (place, position)
) STRICT;

CREATE UNIQUE INDEX turns_key ON turns (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX turns_ready ON turns (startable, number) WHERE status = 'ready';
CREATE INDEX turns_leased ON turns (lease_until) WHERE status = 'running';
CREATE INDEX turns_open ON turns (place, position) WHERE status IN ('queued', 'ready', 'running', 'waiting');
CREATE INDEX turns_ended ON turns (ended) WHERE ended IS NOT NULL;
CREATE INDEX turns_unpacked ON turns (ended) WHERE ended IS NOT NULL AND is_packed = 0;

-- Apart from `turns`, because SQLite writes a whole row again when a column of it changes, and its room is used again only when the row is deleted.
CREATE TABLE headers (
    turn   INTEGER PRIMARY KEY REFERENCES turns (number),
    header BLOB NOT NULL
) STRICT;

CREATE TABLE results (
    turn   INTEGER PRIMARY KEY REFERENCES turns (number),
    result BLOB NOT NULL
) STRICT;

-- What was written together is one row, each entry or event with its length before it. `seq` is the number of the last one.
CREATE TABLE journal (
    turn    INTEGER NOT NULL REFERENCES turns (number),
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    turn  INTEGER NOT NULL REFERENCES turns (number),
    seq   INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at    REAL NOT NULL,
    lines BLOB NOT NULL,
    PRIMARY KEY (turn, seq)
) STRICT, WITHOUT ROWID;

-- Headers, results, journals and events of turns that have ended, compressed with a dictionary or without.
CREATE TABLE packed (
    turn       INTEGER PRIMARY KEY REFERENCES turns (number),
    dictionary INTEGER REFERENCES dictionaries (number),
    contents   BLOB NOT NULL
) STRICT;

-- What turns of the same contracts have in common. A dictionary is used for a day, and deleted with the last turn that it was used for.
CREATE TABLE dictionaries (
    number      INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    made        REAL NOT NULL,
    last_ended  REAL NOT NULL,
    text        BLOB NOT NULL
) STRICT;

CREATE INDEX dictionaries_newest ON dictionaries (fingerprint, made);
