/* The protocol of leases and epochs, for SPIN. The actions have the names of the methods of TurnStore (runtime/turns.py), and each is
 * one atomic step, as it is one transaction there. Workers crash, are frozen for any time (another process simply goes on), and write
 * late. Two turns of one session; the first asks a person before it ends.
 *
 * What must never happen is an assertion; a turn that is lost leaves the model in an invalid end state, because workers and the clock
 * only end when all turns have. BUG_... puts a mistake back, which SPIN must find.
 */
#define WORKERS 2
#define TURNS 2
#define EFFECTS 2
#define LATE 1          /* how often a lease ends although its worker lives */
#define CRASHES 1
#define DRAINS 1
#define MOST_CLAIMS (1 + LATE + CRASHES + DRAINS + 1)

mtype = { none, queued, ready, running, waiting, success, cancelled }
mtype = { ok, stop, lost }

mtype status[TURNS] = none;
byte epoch[TURNS];
byte entries[TURNS];            /* of the journal */
bool is_cancel_wanted[TURNS];
bool is_over[TURNS];            /* the lease */
bool is_answered[TURNS];

/* What only the model knows. */
bool is_left[TURNS];            /* nobody renews the lease any more */
bool was_asked[TURNS];          /* a caller has asked to cancel it */
byte ends[TURNS];
byte late, crashes, drains;

#define OPEN(t) (status[t] == queued || status[t] == ready || status[t] == running || status[t] == waiting)
#define ENDED(t) (status[t] == success || status[t] == cancelled)
#define ALL_ENDED (ENDED(0) && ENDED(1))
#define EXPIRED(t) (status[t] == running && is_over[t])
#define ASKS(t) (t == 0)

inline make_next_ready(t) {
    if
#ifndef BUG_NEXT_FORGOTTEN
    :: t == 0 && status[1] == queued -> status[1] = ready
#endif
    :: else
    fi
}

inline finish(t, how) {
    assert(how != cancelled || was_asked[t]);
    assert(ends[t] == 0);
    status[t] = how;
    ends[t]++;
    is_over[t] = false;
    is_left[t] = false;
    make_next_ready(t)
}

#ifdef BUG_NO_EPOCH
#define HELD(t, e) (status[t] == running)
#else
#define HELD(t, e) (status[t] == running && epoch[t] == e)
#endif

#ifdef BUG_TWO_VERDICTS
#define STOP lost
#else
#define STOP stop
#endif

inline judge(t, e) {
    if
    :: !HELD(t, e) -> verdict = lost
    :: HELD(t, e) && is_cancel_wanted[t] -> verdict = STOP
    :: HELD(t, e) && !is_cancel_wanted[t] -> verdict = ok
    fi
}

inline accept(t) {
    atomic {
        if
        :: t == 1 && OPEN(0) -> status[t] = queued
        :: else -> status[t] = ready
        fi
    }
}

inline take(t) {
#ifndef BUG_CLAIM_KEEPS_EPOCH
    epoch[t]++;
#else
    if
    :: epoch[t] == 0 -> epoch[t] = 1
    :: else
    fi;
#endif
    assert(epoch[t] <= MOST_CLAIMS);
    assert(status[1 - t] != running);
    status[t] = running;
    is_over[t] = false;
    is_left[t] = false;
    turn = t;
    under = epoch[t];
    number = entries[t];
    is_claimed = true
}

/* Leases that are over come first. A turn that is wanted to end is not run again. */
inline claim() {
    atomic {
        is_claimed = false;
        if
#ifndef BUG_TWO_VERDICTS
        :: EXPIRED(0) && is_cancel_wanted[0] -> finish(0, cancelled)
        :: EXPIRED(1) && is_cancel_wanted[1] -> finish(1, cancelled)
        :: EXPIRED(0) && !is_cancel_wanted[0] -> take(0)
        :: EXPIRED(1) && !is_cancel_wanted[1] -> take(1)
#else
        :: EXPIRED(0) -> take(0)
        :: EXPIRED(1) -> take(1)
#endif
        :: !EXPIRED(0) && !EXPIRED(1) && status[0] == ready -> take(0)
        :: !EXPIRED(0) && !EXPIRED(1) && status[1] == ready -> take(1)
        :: ALL_ENDED
        fi
    }
}

inline write(t, e) {
    atomic {
        judge(t, e);
        if
        :: verdict != lost ->
            /* The worker knows the whole journal: nobody else has written since its claim. */
            assert(entries[t] == number);
            entries[t]++
        :: else
        fi;
        number++
    }
}

inline end(t, e, how) {
    atomic {
        judge(t, e);
        if
        :: verdict != lost && how == waiting && !is_cancel_wanted[t] -> status[t] = waiting
        :: verdict != lost && how == waiting && is_cancel_wanted[t] -> finish(t, cancelled)
        :: verdict != lost && how != waiting ->
            assert(how != success || entries[t] == EFFECTS);
            finish(t, how)
        :: else
        fi
    }
}

inline renew(t, e) {
    atomic {
        judge(t, e);
        if
        :: verdict != lost -> is_over[t] = false
#ifdef BUG_HEARTBEAT_CANCELS
        :: verdict == lost && status[t] == running -> finish(t, cancelled)
        :: verdict == lost && status[t] != running
#else
        :: else
#endif
        fi
    }
}

inline give_back(t, e) {
    atomic {
        judge(t, e);
        if
        :: verdict == ok -> status[t] = ready; is_over[t] = false
        :: verdict == stop -> finish(t, cancelled)
        :: verdict == lost
        fi
    }
}

inline answer(t) {
    atomic {
        if
#ifdef BUG_ANSWER_ANY_STATUS
        :: OPEN(t) && status[t] != queued -> status[t] = ready; is_answered[t] = true
#else
        :: status[t] == waiting -> status[t] = ready; is_answered[t] = true
#endif
        :: else
        fi
    }
}

inline cancel(t) {
    atomic {
        was_asked[t] = true;
        if
        :: status[t] == running -> is_cancel_wanted[t] = true
        :: OPEN(t) && status[t] != running -> finish(t, cancelled)
        :: else
        fi
    }
}

/* The worker stops to run the turn. If the lease is still its own, nobody renews it. What it knew is forgotten. */
inline leave(t, e) {
    atomic {
        if
        :: status[t] == running && epoch[t] == e -> is_left[t] = true
        :: else
        fi;
        turn = 0; under = 0; number = 0; verdict = ok; is_claimed = false;
        goto idle
    }
}

/* As a lease does with a verdict (runtime/worker.py). */
inline obey() {
    if
    :: verdict == stop -> end(turn, under, cancelled); leave(turn, under)
    :: verdict == lost -> leave(turn, under)
    :: verdict == ok
    fi
}

active [WORKERS] proctype Worker() {
    byte turn, under, number;
    mtype verdict;
    bool is_claimed;
idle:
    do
    :: ALL_ENDED -> goto stopped
    :: EXPIRED(0) || EXPIRED(1) || status[0] == ready || status[1] == ready ->
        claim();
        if
        :: is_claimed -> break
        :: else
        fi
    od;
    do
    :: number < EFFECTS -> write(turn, under); obey()
    :: number == EFFECTS && ASKS(turn) && !is_answered[turn] -> end(turn, under, waiting); leave(turn, under)
    :: number == EFFECTS && (!ASKS(turn) || is_answered[turn]) -> end(turn, under, success); leave(turn, under)
    :: renew(turn, under); obey()
    :: atomic { drains < DRAINS -> drains++ }; give_back(turn, under); leave(turn, under)
    :: atomic { crashes < CRASHES -> crashes++ }; leave(turn, under)
    od;
stopped:
    skip
}

active proctype Client() {
    accept(0);
    if
    :: cancel(0)
    :: skip
    fi;
    accept(1);
    if
    :: cancel(0)
    :: cancel(1)
    :: skip
    fi
}

active proctype Person() {
    do
    :: ALL_ENDED -> break
    :: status[0] == waiting -> answer(0); break
    od
#ifdef BUG_ANSWER_ANY_STATUS
    ;
    /* The answer comes again. */
    answer(0)
#endif
}

active proctype Clock() {
    do
    :: ALL_ENDED -> break
    :: atomic { status[0] == running && !is_over[0] && is_left[0] -> is_over[0] = true }
    :: atomic { status[1] == running && !is_over[1] && is_left[1] -> is_over[1] = true }
    :: atomic { status[0] == running && !is_over[0] && late < LATE -> late++; is_over[0] = true }
    :: atomic { status[1] == running && !is_over[1] && late < LATE -> late++; is_over[1] = true }
    od
}
