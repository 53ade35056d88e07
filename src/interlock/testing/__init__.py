"""For tests: a model that follows a script, a clock that stands still, ids that count."""

from interlock.testing.fixed import CountingIds, FixedClock
from interlock.testing.scripted import Scripted, ScriptedModel

__all__ = ["CountingIds", "FixedClock", "Scripted", "ScriptedModel"]
