"""How much the tests do: little in a build, much in `make soak`. INTERLOCK_SEED repeats what a test has drawn."""

from __future__ import annotations

import os
import secrets

__all__ = ["FREEZES", "KILLS", "SCHEDULES", "SEED", "SERVER_KILLS", "STREAMS", "TURNS"]

KILLS = int(os.environ.get("INTERLOCK_KILLS", "300"))
FREEZES = int(os.environ.get("INTERLOCK_FREEZES", "30"))
TURNS = int(os.environ.get("INTERLOCK_TURNS", "400"))
"""Of four processes on one session."""
STREAMS = int(os.environ.get("INTERLOCK_STREAMS", "200"))
"""Clients that follow turns at once while the server or a worker dies."""
SCHEDULES = int(os.environ.get("INTERLOCK_SCHEDULES", "100000"))
SEED = int(os.environ.get("INTERLOCK_SEED", "0")) or secrets.randbelow(1_000_000) + 1
SERVER_KILLS = max(3, KILLS // 100)
