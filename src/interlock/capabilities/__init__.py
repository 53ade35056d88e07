"""What a node can be granted: one Protocol a file, with its value types; who grants it is in adapters/."""

from interlock.capabilities.backend import ModelBackend, ModelRequest, ModelResponse
from interlock.capabilities.capability import Capability
from interlock.capabilities.clock import Clock
from interlock.capabilities.human import Human, Question
from interlock.capabilities.ids import Ids
from interlock.capabilities.media import Images, Transcriber
from interlock.capabilities.memory import Memory, MemoryReader, MemoryWriter
from interlock.capabilities.model import Decision, Message, Model, ModelReply, Piece, Tool, ToolCall, Usage
from interlock.capabilities.patience import Patience
from interlock.capabilities.policy import Policy, Verdict
from interlock.capabilities.profiles import Profile, Profiles
from interlock.capabilities.progress import Progress
from interlock.capabilities.sessions import SessionReader, SessionStore, SessionWriter
from interlock.capabilities.speech import Speech
from interlock.capabilities.tools import Toolbox, ToolGateway, ToolRequest, ToolResult

__all__ = [
    "Capability",
    "Clock",
    "Decision",
    "Human",
    "Ids",
    "Images",
    "Memory",
    "MemoryReader",
    "MemoryWriter",
    "Message",
    "Model",
    "ModelBackend",
    "ModelReply",
    "ModelRequest",
    "ModelResponse",
    "Patience",
    "Piece",
    "Policy",
    "Profile",
    "Profiles",
    "Progress",
    "Question",
    "SessionReader",
    "SessionStore",
    "SessionWriter",
    "Speech",
    "Tool",
    "ToolCall",
    "ToolGateway",
    "ToolRequest",
    "ToolResult",
    "Toolbox",
    "Transcriber",
    "Usage",
    "Verdict",
]
