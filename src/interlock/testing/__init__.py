"""For tests: a model that follows a script, one that can be exchanged, a clock that stands still, ids that count."""

from interlock.adapters.models.scripted import Scripted, ScriptedModel
from interlock.testing.fixed import CountingIds, FixedClock
from interlock.testing.switched import SwitchedModel

__all__ = ["CountingIds", "FixedClock", "Scripted", "ScriptedModel", "SwitchedModel"]
