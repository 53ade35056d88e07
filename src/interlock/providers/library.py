"""The table of the library's own providers: capabilities, how their adapter is made, what `interlock doctor` looks at."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.capabilities import Clock, Human, Ids, Memory, Model, Progress, SessionStore, Speech, Timer
from interlock.human import LaterHuman, NobodyHere
from interlock.providers.models import check_model, open_model
from interlock.providers.provider import Provider
from interlock.providers.stores import check_memory, check_sessions, missing_memory, missing_sessions, open_memory, open_sessions
from interlock.system import EventProgress, PlainSpeech, SystemClock, SystemIds, SystemTimer

__all__ = ["LIBRARY"]

LIBRARY: Sequence[Provider] = (
    Provider(capabilities=(Clock,), open=lambda _: SystemClock()),
    Provider(capabilities=(Ids,), open=lambda _: SystemIds()),
    Provider(capabilities=(Timer,), open=lambda _: SystemTimer()),
    Provider(capabilities=(Progress,), open=lambda _: EventProgress()),
    Provider(capabilities=(Speech,), open=lambda _: PlainSpeech()),
    Provider(capabilities=(Human,), open=lambda context: LaterHuman() if context.settings.human == "wait" else NobodyHere()),
    Provider(capabilities=(Model,), open=open_model, check=check_model, shared=False),
    Provider(capabilities=(SessionStore,), open=open_sessions, check=check_sessions, missing=missing_sessions),
    Provider(capabilities=(Memory,), open=open_memory, check=check_memory, missing=missing_memory),
)
