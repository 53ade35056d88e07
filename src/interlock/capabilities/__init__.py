"""What a node can be granted: one Protocol a file, with its value types; who grants it is in adapters/."""

from interlock.capabilities.backend import ModelBackend, ModelRequest, ModelResponse
from interlock.capabilities.capability import Capability
from interlock.capabilities.clock import Clock
from interlock.capabilities.ids import Ids
from interlock.capabilities.media import Images, Transcriber
from interlock.capabilities.memory import Memory
from interlock.capabilities.model import Decision, Message, Model, ModelReply, Piece, Tool, ToolCall, Usage

__all__ = [
    "Capability",
    "Clock",
    "Decision",
    "Ids",
    "Images",
    "Memory",
    "Message",
    "Model",
    "ModelBackend",
    "ModelReply",
    "ModelRequest",
    "ModelResponse",
    "Piece",
    "Tool",
    "ToolCall",
    "Transcriber",
    "Usage",
]
