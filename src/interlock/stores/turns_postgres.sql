-- The tables and functions of the turn store. Each function is one transaction and one round trip. They lock a session before a turn,
-- and look at turns in a statement after that which locks: one statement would see what there was before it waited.

CREATE SCHEMA IF NOT EXISTS interlock;

CREATE TABLE interlock.version (version integer NOT NULL);
INSERT INTO interlock.version VALUES (2);

CREATE TABLE interlock.sessions (
    number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant        text NOT NULL,
    agent         text NOT NULL,
    session       text NOT NULL,
    last_position integer NOT NULL DEFAULT 0,
    state         bytea,
    state_by      text,
    fingerprint   text,
    UNIQUE (tenant, agent, session)
);

-- Times are in seconds since 1970.
CREATE TABLE interlock.turns (
    number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn             text NOT NULL UNIQUE,
    place            bigint NOT NULL,  -- the number of its session
    position         integer NOT NULL,
    tenant           text NOT NULL,
    role             text,
    key              text,
    digest           text NOT NULL,
    principal        text,
    header           bytea NOT NULL,
    fingerprint      text NOT NULL,
    build            text NOT NULL,
    is_exclusive     boolean NOT NULL,
    policy           text NOT NULL,
    due              float8,
    status           text NOT NULL,
    created          float8 NOT NULL,
    startable        float8 NOT NULL,  -- when it may start: the later of `created` and `due`
    epoch            integer NOT NULL DEFAULT 0,
    attempts         integer NOT NULL DEFAULT 0,
    owner            text,
    lease_until      float8,
    used             float8 NOT NULL DEFAULT 0,
    is_cancel_wanted boolean NOT NULL DEFAULT false,
    is_hidden        boolean NOT NULL DEFAULT false,
    is_packed        boolean NOT NULL DEFAULT false,
    answer           bytea,
    started          float8,
    ended            float8,
    result           bytea,
    code             text,
    UNIQUE (place, position)
);

CREATE UNIQUE INDEX turns_key ON interlock.turns (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX turns_ready ON interlock.turns (startable, number) WHERE status = 'ready';
CREATE INDEX turns_leased ON interlock.turns (lease_until) WHERE status = 'running';
CREATE INDEX turns_open ON interlock.turns (place, position) WHERE status IN ('queued', 'ready', 'running', 'waiting');
CREATE INDEX turns_ended ON interlock.turns (ended) WHERE ended IS NOT NULL;
CREATE INDEX turns_unpacked ON interlock.turns (ended) WHERE ended IS NOT NULL AND NOT is_packed;

-- Without foreign keys, which PostgreSQL checks by a query for each row.
CREATE TABLE interlock.journal (
    turn  bigint NOT NULL,
    seq   integer NOT NULL,
    epoch integer NOT NULL,
    entry bytea NOT NULL,
    PRIMARY KEY (turn, seq)
);

CREATE TABLE interlock.events (
    turn  bigint NOT NULL,
    seq   integer NOT NULL,
    epoch integer NOT NULL,
    at    float8 NOT NULL,
    line  bytea NOT NULL,
    PRIMARY KEY (turn, seq)
);

-- Journal and events of turns that have ended, compressed.
CREATE TABLE interlock.packed (
    turn    bigint PRIMARY KEY,
    journal bytea NOT NULL,
    events  bytea NOT NULL
);

CREATE FUNCTION interlock.clock() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT extract(epoch FROM clock_timestamp())::float8
$$;

-- Return what is added to the time that workers had a turn, when its lease is extended or another worker claims it: no more than one lease.
CREATE FUNCTION interlock.use(a_lease_until float8, a_lease_s float8) RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN a_lease_until IS NULL THEN 0
        ELSE greatest(0, least(a_lease_s, interlock.clock() - (a_lease_until - a_lease_s))) END
$$;

-- Lock the session of a turn; return its number, or NULL where there is no such turn.
CREATE FUNCTION interlock.lock_place(a_turn text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT s.number FROM interlock.sessions s WHERE s.number = (SELECT t.place FROM interlock.turns t WHERE t.turn = a_turn) FOR NO KEY UPDATE
$$;

-- Store that a turn ended or waits. Its session is locked.
CREATE FUNCTION interlock.end_locked(a_place bigint, a_number bigint, a_status text, a_result bytea, a_code text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE interlock.turns
    SET status = a_status, result = a_result, code = a_code, owner = NULL, lease_until = NULL,
        ended = CASE WHEN a_status = 'waiting' THEN NULL ELSE interlock.clock() END
    WHERE number = a_number;
    IF a_status <> 'waiting' THEN
        UPDATE interlock.turns SET status = 'ready' WHERE status = 'queued' AND number = (
            SELECT number FROM interlock.turns
            WHERE place = a_place AND status IN ('queued', 'ready', 'running', 'waiting') AND is_exclusive ORDER BY position LIMIT 1);
    END IF;
END $$;

-- Cancel a turn, or ask its worker to. Its session is locked.
CREATE FUNCTION interlock.cancel_locked(a_place bigint, a_number bigint, a_is_rollback boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_status text;
BEGIN
    SELECT status INTO v_status FROM interlock.turns WHERE number = a_number FOR NO KEY UPDATE;
    IF v_status IN ('success', 'error', 'cancelled') THEN
        RETURN;
    END IF;
    IF a_is_rollback THEN
        UPDATE interlock.turns SET is_hidden = true WHERE number = a_number;
    END IF;
    IF v_status = 'running' THEN
        UPDATE interlock.turns SET is_cancel_wanted = true WHERE number = a_number;
    ELSE
        PERFORM interlock.end_locked(a_place, a_number, 'cancelled', NULL, 'cancelled');
    END IF;
END $$;

-- The outcome is new, claimed, known, again, reused, busy or waiting. `again` is an accept that was sent again by the turn's worker.
CREATE FUNCTION interlock.accept(
    a_turn text, a_tenant text, a_agent text, a_session text, a_role text, a_key text, a_digest text, a_principal text, a_header bytea,
    a_fingerprint text, a_build text, a_is_exclusive boolean, a_policy text, a_due float8, a_worker text, a_lease_s float8,
    OUT outcome text, OUT known_turn text, OUT new_position integer, OUT new_status text, OUT accepted float8,
    OUT old_state bytea, OUT old_state_by text, OUT old_fingerprint text
) LANGUAGE plpgsql AS $$
DECLARE
    v_digest text;
    v_place bigint;
    v_open bigint[];
    v_number bigint;
    v_startable float8;
    v_waits boolean;
BEGIN
    SELECT turn, digest INTO known_turn, v_digest FROM interlock.turns WHERE turn = a_turn;
    IF NOT FOUND AND a_key IS NOT NULL THEN
        SELECT turn, digest INTO known_turn, v_digest FROM interlock.turns WHERE tenant = a_tenant AND key = a_key;
    END IF;
    IF known_turn IS NOT NULL THEN
        outcome := 'reused';
        IF v_digest = a_digest THEN
            UPDATE interlock.turns SET used = used + interlock.use(lease_until, a_lease_s), lease_until = interlock.clock() + a_lease_s
            WHERE turn = a_turn AND status = 'running' AND owner = a_worker AND epoch = 1;
            outcome := CASE WHEN FOUND THEN 'again' ELSE 'known' END;
        END IF;
        RETURN;
    END IF;

    INSERT INTO interlock.sessions (tenant, agent, session) VALUES (a_tenant, a_agent, a_session) ON CONFLICT DO NOTHING;
    SELECT number, last_position + 1, state, state_by, fingerprint
    INTO v_place, new_position, old_state, old_state_by, old_fingerprint
    FROM interlock.sessions WHERE tenant = a_tenant AND agent = a_agent AND session = a_session FOR NO KEY UPDATE;
    new_status := 'ready';
    IF a_is_exclusive AND new_position > 1 THEN
        SELECT array_agg(number ORDER BY position), bool_or(status = 'waiting') INTO v_open, v_waits FROM interlock.turns
        WHERE place = v_place AND status IN ('queued', 'ready', 'running', 'waiting') AND is_exclusive;
        IF v_open IS NOT NULL THEN
            IF a_policy IN ('interrupt', 'rollback') THEN
                FOREACH v_number IN ARRAY v_open LOOP
                    PERFORM interlock.cancel_locked(v_place, v_number, a_policy = 'rollback');
                END LOOP;
                IF EXISTS (SELECT 1 FROM interlock.turns WHERE number = ANY (v_open) AND status = 'running') THEN
                    new_status := 'queued';
                END IF;
            ELSIF v_waits OR a_policy = 'reject' THEN
                outcome := CASE WHEN v_waits THEN 'waiting' ELSE 'busy' END;
                RETURN;
            ELSE
                new_status := 'queued';
            END IF;
        END IF;
    END IF;

    accepted := interlock.clock();
    v_startable := greatest(accepted, a_due);
    outcome := 'new';
    IF a_worker IS NOT NULL AND new_status = 'ready' AND v_startable <= accepted THEN
        outcome := 'claimed';
        new_status := 'running';
    END IF;
    INSERT INTO interlock.turns (
        turn, place, position, tenant, role, key, digest, principal, header, fingerprint, build, is_exclusive, policy, due,
        status, created, startable, epoch, attempts, owner, lease_until, started
    ) VALUES (
        a_turn, v_place, new_position, a_tenant, a_role, a_key, a_digest, a_principal, a_header, a_fingerprint, a_build, a_is_exclusive,
        a_policy, a_due, new_status, accepted, v_startable, (outcome = 'claimed')::integer, (outcome = 'claimed')::integer,
        CASE WHEN outcome = 'claimed' THEN a_worker END, CASE WHEN outcome = 'claimed' THEN accepted + a_lease_s END,
        CASE WHEN outcome = 'claimed' THEN accepted END
    ) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        -- Another transaction has just stored the id or the key. Roll back: what was cancelled above must not be.
        RAISE EXCEPTION 'accepted meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    UPDATE interlock.sessions SET last_position = new_position WHERE number = v_place;
    IF outcome = 'new' THEN
        PERFORM pg_notify('interlock_turns', a_turn);
    END IF;
END $$;

CREATE FUNCTION interlock.claim(a_worker text, a_fingerprints text[], a_limit integer, a_lease_s float8, a_only text[])
RETURNS TABLE (claimed bigint, under integer) LANGUAGE plpgsql AS $$
DECLARE
    v_now float8 := interlock.clock();
    -- A lease that ends later was given before the clock was set back. The second is for leases that were given since `v_now`.
    v_latest float8 := v_now + a_lease_s + 1.0;
    v_turns text[];
    v_turn text;
    v_place bigint;
    v_number bigint;
    v_count integer;
BEGIN
    -- Turns that are wanted to end and whose workers died.
    SELECT array_agg(turn ORDER BY place) INTO v_turns FROM interlock.turns
    WHERE status = 'running' AND (lease_until <= v_now OR lease_until > v_latest) AND is_cancel_wanted
        AND (a_only IS NULL OR turn = ANY (a_only));
    FOREACH v_turn IN ARRAY coalesce(v_turns, '{}') LOOP
        v_place := interlock.lock_place(v_turn);
        SELECT number INTO v_number FROM interlock.turns
        WHERE turn = v_turn AND status = 'running' AND (lease_until <= v_now OR lease_until > v_latest) AND is_cancel_wanted
        FOR NO KEY UPDATE;
        IF FOUND THEN
            PERFORM interlock.end_locked(v_place, v_number, 'cancelled', NULL, 'cancelled');
        END IF;
    END LOOP;

    -- Turns whose lease is over come first: they must not starve behind new turns.
    RETURN QUERY WITH chosen AS (
        SELECT number, lease_until AS was_until FROM interlock.turns
        WHERE status = 'running' AND (lease_until <= v_now OR lease_until > v_latest) AND NOT is_cancel_wanted
            AND fingerprint = ANY (a_fingerprints)
            AND (a_only IS NULL OR turn = ANY (a_only))
        ORDER BY lease_until, number LIMIT a_limit FOR NO KEY UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE interlock.turns t
        SET epoch = t.epoch + 1, attempts = t.attempts + 1, owner = a_worker,
            used = t.used + interlock.use(t.lease_until, a_lease_s), lease_until = interlock.clock() + a_lease_s
        FROM chosen WHERE t.number = chosen.number RETURNING t.number, t.epoch, was_until
    ) SELECT number, epoch FROM taken ORDER BY was_until, number;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < a_limit THEN
        RETURN QUERY WITH chosen AS (
            SELECT number FROM interlock.turns
            -- Not `startable <= v_now`: a turn that was accepted before the clock was set back can start.
            WHERE status = 'ready' AND (due IS NULL OR due <= v_now) AND fingerprint = ANY (a_fingerprints)
                AND (a_only IS NULL OR turn = ANY (a_only))
            ORDER BY startable, number LIMIT a_limit - v_count FOR NO KEY UPDATE SKIP LOCKED
        ), taken AS (
            UPDATE interlock.turns t
            SET status = 'running', epoch = t.epoch + 1, attempts = t.attempts + 1, owner = a_worker,
                lease_until = interlock.clock() + a_lease_s, started = coalesce(t.started, interlock.clock())
            FROM chosen WHERE t.number = chosen.number RETURNING t.number, t.epoch, t.startable
        ) SELECT number, epoch FROM taken ORDER BY startable, number;
    END IF;
END $$;

-- Add what is not stored yet to a locked turn. Return whether there is no gap; with one, nothing is added.
CREATE FUNCTION interlock.add_locked(
    a_number bigint, a_epoch integer, a_entries bytea[], a_first_entry integer, a_events bytea[], a_first_event integer
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_entries integer := 0;
    v_events integer := 0;
BEGIN
    IF cardinality(a_entries) > 0 THEN
        SELECT coalesce(max(seq) + 1, 0) INTO v_entries FROM interlock.journal WHERE turn = a_number;
        IF a_first_entry > v_entries THEN
            RETURN false;
        END IF;
    END IF;
    IF cardinality(a_events) > 0 THEN
        SELECT coalesce(max(seq) + 1, 0) INTO v_events FROM interlock.events WHERE turn = a_number;
        IF a_first_event > v_events THEN
            RETURN false;
        END IF;
    END IF;
    IF cardinality(a_entries) > 0 THEN
        INSERT INTO interlock.journal (turn, seq, epoch, entry)
        SELECT a_number, a_first_entry + place - 1, a_epoch, entry FROM unnest(a_entries) WITH ORDINALITY AS given (entry, place)
        WHERE a_first_entry + place - 1 >= v_entries;
    END IF;
    IF cardinality(a_events) > 0 THEN
        INSERT INTO interlock.events (turn, seq, epoch, at, line)
        SELECT a_number, a_first_event + place - 1, a_epoch, interlock.clock(), line
        FROM unnest(a_events) WITH ORDINALITY AS given (line, place) WHERE a_first_event + place - 1 >= v_events;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION interlock.write(
    a_turn text, a_epoch integer, a_entries bytea[], a_first_entry integer, a_events bytea[], a_first_event integer
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_number bigint;
    v_is_wanted boolean;
BEGIN
    SELECT number, is_cancel_wanted INTO v_number, v_is_wanted FROM interlock.turns
    WHERE turn = a_turn AND epoch = a_epoch AND status = 'running' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    IF NOT interlock.add_locked(v_number, a_epoch, a_entries, a_first_entry, a_events, a_first_event) THEN
        RETURN 'gap';
    END IF;
    IF cardinality(a_events) > 0 THEN
        PERFORM pg_notify('interlock_turns', a_turn);
    END IF;
    RETURN CASE WHEN v_is_wanted THEN 'stop' ELSE 'ok' END;
END $$;

CREATE FUNCTION interlock.end_turn(
    a_turn text, a_epoch integer, a_status text, a_result bytea, a_code text, a_state bytea,
    a_entries bytea[], a_first_entry integer, a_events bytea[], a_first_event integer
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_place bigint := interlock.lock_place(a_turn);
    v_turn record;
BEGIN
    SELECT number, status, epoch, is_cancel_wanted, fingerprint INTO v_turn FROM interlock.turns WHERE turn = a_turn FOR NO KEY UPDATE;
    IF NOT FOUND OR v_turn.epoch <> a_epoch THEN
        RETURN 'lost';
    END IF;
    IF v_turn.status <> 'running' THEN
        RETURN CASE WHEN v_turn.status = a_status THEN 'ok' ELSE 'lost' END;
    END IF;
    IF NOT interlock.add_locked(v_turn.number, a_epoch, a_entries, a_first_entry, a_events, a_first_event) THEN
        RETURN 'gap';
    END IF;
    IF a_state IS NOT NULL THEN
        UPDATE interlock.sessions SET state = a_state, state_by = a_turn, fingerprint = v_turn.fingerprint WHERE number = v_place;
    END IF;
    -- A turn that is wanted to end does not wait for a person: no worker would be asked again.
    IF v_turn.is_cancel_wanted AND a_status = 'waiting' THEN
        PERFORM interlock.end_locked(v_place, v_turn.number, 'cancelled', NULL, 'cancelled');
    ELSE
        PERFORM interlock.end_locked(v_place, v_turn.number, a_status, a_result, a_code);
    END IF;
    PERFORM pg_notify('interlock_turns', a_turn);
    RETURN CASE WHEN v_turn.is_cancel_wanted THEN 'stop' ELSE 'ok' END;
END $$;

CREATE FUNCTION interlock.renew(a_worker text, a_turns text[], a_epochs integer[], a_lease_s float8)
RETURNS TABLE (renewed text, is_wanted boolean) LANGUAGE sql VOLATILE AS $$
    WITH held AS (
        SELECT t.number, t.turn, t.is_cancel_wanted, t.owner
        FROM interlock.turns t JOIN unnest(a_turns, a_epochs) AS given (turn, epoch) ON t.turn = given.turn AND t.epoch = given.epoch
        WHERE t.status = 'running' ORDER BY t.number FOR NO KEY UPDATE OF t
    ), extended AS (
        UPDATE interlock.turns t
        SET used = t.used + interlock.use(t.lease_until, a_lease_s), lease_until = interlock.clock() + a_lease_s
        FROM held WHERE t.number = held.number AND held.owner = a_worker
    ) SELECT turn, is_cancel_wanted FROM held
$$;

CREATE FUNCTION interlock.give_back(a_turn text, a_epoch integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_place bigint := interlock.lock_place(a_turn);
    v_turn record;
BEGIN
    SELECT number, is_cancel_wanted INTO v_turn FROM interlock.turns
    WHERE turn = a_turn AND epoch = a_epoch AND status = 'running' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN CASE WHEN EXISTS (SELECT 1 FROM interlock.turns WHERE turn = a_turn AND epoch = a_epoch AND status = 'ready')
            THEN 'ok' ELSE 'lost' END;
    END IF;
    IF v_turn.is_cancel_wanted THEN
        PERFORM interlock.end_locked(v_place, v_turn.number, 'cancelled', NULL, 'cancelled');
    ELSE
        UPDATE interlock.turns SET status = 'ready', owner = NULL, lease_until = NULL WHERE number = v_turn.number;
    END IF;
    PERFORM pg_notify('interlock_turns', a_turn);
    RETURN CASE WHEN v_turn.is_cancel_wanted THEN 'stop' ELSE 'ok' END;
END $$;

-- Return the epoch of the turn after the answer, or NULL where it does not wait.
CREATE FUNCTION interlock.answer(a_turn text, a_answer bytea, a_entry bytea, a_worker text, a_lease_s float8)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_number bigint;
    v_epoch integer;
    v_now float8;
BEGIN
    SELECT number, epoch INTO v_number, v_epoch FROM interlock.turns WHERE turn = a_turn AND status = 'waiting' FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO interlock.journal (turn, seq, epoch, entry)
    SELECT v_number, coalesce(max(seq) + 1, 0), v_epoch, a_entry FROM interlock.journal WHERE turn = v_number;
    IF a_worker IS NULL THEN
        UPDATE interlock.turns SET status = 'ready', answer = a_answer, used = 0 WHERE number = v_number;
        PERFORM pg_notify('interlock_turns', a_turn);
        RETURN v_epoch;
    END IF;
    v_now := interlock.clock();
    UPDATE interlock.turns
    SET status = 'running', answer = a_answer, used = 0, epoch = v_epoch + 1, attempts = attempts + 1, owner = a_worker,
        lease_until = v_now + a_lease_s, started = coalesce(started, v_now)
    WHERE number = v_number;
    RETURN v_epoch + 1;
END $$;

CREATE FUNCTION interlock.cancel(a_turn text, a_is_rollback boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_place bigint := interlock.lock_place(a_turn);
BEGIN
    IF v_place IS NOT NULL THEN
        PERFORM interlock.cancel_locked(v_place, number, a_is_rollback) FROM interlock.turns WHERE turn = a_turn;
        PERFORM pg_notify('interlock_turns', a_turn);
    END IF;
END $$;

CREATE FUNCTION interlock.prune(a_ended_before float8, a_limit integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_old bigint[];
BEGIN
    SELECT array_agg(number) INTO v_old FROM (
        SELECT number FROM interlock.turns WHERE ended < a_ended_before ORDER BY ended, number LIMIT a_limit FOR UPDATE SKIP LOCKED
    ) AS old;
    DELETE FROM interlock.journal WHERE turn = ANY (v_old);
    DELETE FROM interlock.events WHERE turn = ANY (v_old);
    DELETE FROM interlock.packed WHERE turn = ANY (v_old);
    DELETE FROM interlock.turns WHERE number = ANY (v_old);
    RETURN coalesce(cardinality(v_old), 0);
END $$;

-- Replace the rows of a turn that has ended by what they were packed to.
CREATE FUNCTION interlock.pack(a_number bigint, a_journal bytea, a_events bytea) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE interlock.turns SET is_packed = true WHERE number = a_number AND ended IS NOT NULL AND NOT is_packed;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO interlock.packed (turn, journal, events) VALUES (a_number, a_journal, a_events);
    DELETE FROM interlock.journal WHERE turn = a_number;
    DELETE FROM interlock.events WHERE turn = a_number;
    RETURN true;
END $$;
