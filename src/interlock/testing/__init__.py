"""For tests: a scripted model, a model that can be replaced, a fixed clock, and ids that count up."""

from interlock.models.scripted import Scripted, ScriptedModel
from interlock.testing.fixed import CountingIds, FixedClock
from interlock.testing.switched import SwitchedModel

__all__ = ["CountingIds", "FixedClock", "Scripted", "ScriptedModel", "SwitchedModel"]
