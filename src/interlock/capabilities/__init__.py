"""The capabilities that a node can be granted: one Protocol per module, with its value types.

The implementations are in models/, stores/, tools/ and system.py. An agent may declare capabilities of its own.
"""

from interlock.capabilities.capability import Capability, Effect, asks, keyed
from interlock.capabilities.clock import Clock
from interlock.capabilities.human import FormQuestion, Human, Question
from interlock.capabilities.ids import Ids
from interlock.capabilities.memory import Memory, MemoryReader, MemoryWriter
from interlock.capabilities.model import Chunk, Decision, Message, Model, ModelReply, Tool, ToolCall, Usage
from interlock.capabilities.progress import Progress
from interlock.capabilities.sessions import SessionReader, SessionStore, SessionWriter
from interlock.capabilities.speech import Speech
from interlock.capabilities.timer import Timer
from interlock.capabilities.tools import Toolbox, ToolGateway, ToolRequest, ToolResult, approval_question

__all__ = [
    "Capability",
    "Chunk",
    "Clock",
    "Decision",
    "Effect",
    "FormQuestion",
    "Human",
    "Ids",
    "Memory",
    "MemoryReader",
    "MemoryWriter",
    "Message",
    "Model",
    "ModelReply",
    "Progress",
    "Question",
    "SessionReader",
    "SessionStore",
    "SessionWriter",
    "Speech",
    "Timer",
    "Tool",
    "ToolCall",
    "ToolGateway",
    "ToolRequest",
    "ToolResult",
    "Toolbox",
    "Usage",
    "approval_question",
    "asks",
    "keyed",
]
