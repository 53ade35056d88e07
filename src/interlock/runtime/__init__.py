"""How a turn runs: turn.py first, then gate.py and events.py."""
