"""The table of the library's own providers: capabilities, how their adapter is made, what `interlock doctor` looks at."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.adapters.images import PillowImages
from interlock.adapters.people import LaterHuman, NobodyHere
from interlock.adapters.system import EventProgress, PlainSpeech, SystemClock, SystemIds, SystemTimer
from interlock.capabilities import (
    Clock,
    Human,
    Ids,
    Images,
    Memory,
    Model,
    ModelBackend,
    Progress,
    SessionStore,
    Speech,
    Timer,
    Transcriber,
)
from interlock.capabilities.graph_store import GraphStore
from interlock.capabilities.registry import GraphUndo, ToolCatalogue, ToolRegistry
from interlock.providers.models import check_model, check_transcriber, open_backend, open_model, open_transcriber
from interlock.providers.provider import Provider
from interlock.providers.stores import (
    check_graphs,
    check_memory,
    check_sessions,
    open_graph_tools,
    open_graphs,
    open_memory,
    open_sessions,
)

__all__ = ["LIBRARY"]

LIBRARY: Sequence[Provider] = (
    Provider(capabilities=(Clock,), open=lambda _: SystemClock()),
    Provider(capabilities=(Ids,), open=lambda _: SystemIds()),
    Provider(capabilities=(Timer,), open=lambda _: SystemTimer()),
    Provider(capabilities=(Progress,), open=lambda _: EventProgress()),
    Provider(capabilities=(Speech,), open=lambda _: PlainSpeech()),
    Provider(capabilities=(Human,), open=lambda context: LaterHuman() if context.settings.human == "wait" else NobodyHere()),
    Provider(capabilities=(Images,), open=lambda context: PillowImages(max_pixels=context.settings.max_image_pixels)),
    Provider(capabilities=(Model,), open=open_model, check=check_model, shared=False),
    Provider(capabilities=(ModelBackend,), open=open_backend, shared=False),
    Provider(capabilities=(Transcriber,), open=open_transcriber, check=check_transcriber),
    Provider(capabilities=(SessionStore,), open=open_sessions, check=check_sessions),
    Provider(capabilities=(Memory,), open=open_memory, check=check_memory),
    Provider(capabilities=(GraphStore,), open=open_graphs, check=check_graphs),
    Provider(capabilities=(ToolCatalogue, ToolRegistry, GraphUndo), open=open_graph_tools, parts=(GraphStore,)),
)
