"""What a node can be granted: one Protocol a file, with its value types; who grants it is in adapters/."""

from interlock.capabilities.capability import Capability
from interlock.capabilities.clock import Clock
from interlock.capabilities.ids import Ids
from interlock.capabilities.media import Images, Transcriber
from interlock.capabilities.memory import Memory
from interlock.capabilities.model import ModelBackend, ModelRequest, ModelResponse

__all__ = ["Capability", "Clock", "Ids", "Images", "Memory", "ModelBackend", "ModelRequest", "ModelResponse", "Transcriber"]
