"""What the tests of the desk share: a real session store that can be looked into and stopped, and scripts for its models."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import redis

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids, Message, Model, ModelReply, Tool, ToolCall
from interlock.engine import EngineName
from interlock.runtime.events import Listener
from interlock.stores.valkey import EmbeddedValkey
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel, SwitchedModel

NUMBERS = itertools.count(1)
ASKED = ("validate_request", "load_or_create_state", "read_memory", "plan_goal")
PLANNED = (*ASKED, "plan_goal/prompt", "plan_goal/model", "plan_goal/parse_json", "apply_plan", "dispatch_specialist")
SAVED = ("apply_state_updates", "validate_and_save_state", "write_memory", "finalize_reply")


def inside(parent: str, *nodes: str) -> tuple[str, ...]:
    return tuple(f"{parent}/{node}" for node in nodes)


TOOL_PATH = inside("dispatch_specialist", "validate_and_prepare", "tool_path", "tool_path/prompt", "tool_path/model")
STRUCTURED_PATH = inside(
    "dispatch_specialist",
    *("validate_and_prepare", "structured_path", "structured_path/prompt", "structured_path/model", "structured_path/parse_json"),
)


def plan(goal_type: str = "sales.order", **goal: Any) -> str:
    """What a planner's model says."""
    return json.dumps({"goal": {"goal_type": goal_type, **goal}})


def said(message: str = "Fine.", *, tools: Sequence[Mapping[str, Any]] | None = None, **updates: Any) -> str:
    """What a specialist's model says where it is asked for JSON."""
    made: dict[str, Any] = {"message": message}
    if tools is not None:
        made["tool_requests"] = list(tools)
    if updates:
        made["state_updates"] = updates
    return json.dumps(made)


def calls(*wanted: tuple[str, dict[str, Any]], text: str = "") -> ModelReply:
    """What a specialist's model says where it is offered tools."""
    made = tuple(ToolCall(id=f"call-{number}", name=name, arguments=arguments) for number, (name, arguments) in enumerate(wanted, 1))
    return ModelReply(text=text, calls=made)


def add(expression: str = "1 + 1") -> tuple[str, dict[str, Any]]:
    return "math.evaluate", {"expression": expression}


def new_session() -> str:
    return f"s-{next(NUMBERS)}"


def ending(result: TurnResult) -> tuple[str, str | None]:
    """The code and the node of the error that a turn ended with."""
    assert result.error is not None, result.output
    assert result.status == "error"
    return result.error.code, result.error.node


class Store:
    """A session store, from the program that comes with the desk, with its data in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.valkey = EmbeddedValkey(folder / "valkey")
        self.address = ""
        self._apps: dict[str, tuple[Interlock, SwitchedModel, SwitchedIds]] = {}

    async def start(self) -> None:
        self.valkey.mark_unreachable()
        self.address = await self.valkey.address()

    async def stop(self) -> None:
        await self.valkey.aclose()

    async def close(self) -> None:
        """Stop for good, and close the applications that tests have shared."""
        while self._apps:
            await self._apps.popitem()[1][0].close()
        await self.stop()

    def shared(self, engine: EngineName, model: ScriptedModel | None, *, fixed: bool = False, **settings: Any) -> Interlock:
        """An application that others use too, one after the other, each with a model of its own: to make one takes a while.

        One that is fixed begins to count its ids anew, and its clock stands still.
        """
        name = repr((engine, self.address, model is None, fixed, sorted(settings.items())))
        if name not in self._apps:
            switched, ids = SwitchedModel(), SwitchedIds()
            grants: dict[type, object] = {Model: switched} if model is not None else {}
            grants |= {Clock: FixedClock(), Ids: ids} if fixed else {}
            self._apps[name] = (Interlock(self.settings(engine, **settings), grants=grants), switched, ids)
        app, switched, ids = self._apps[name]
        ids.now = CountingIds()
        if model is not None:
            switched.now = model
        return app

    def settings(self, engine: EngineName, **settings: Any) -> Settings:
        """Settings for an application whose sessions are here."""
        made: dict[str, Any] = {"data_dir": self.folder, "session_url": f"unix://{self.address}", "engine": engine, **settings}
        return Settings(**made)

    def app(self, engine: EngineName, *replies: Scripted, grants: Mapping[type, object] | None = None, **settings: Any) -> Interlock:
        """An application with a model that follows a script, or without one by the rules of the desk."""
        model = {Model: ScriptedModel(*replies)} if replies else {}
        return Interlock(self.settings(engine, **settings), grants={**model, **(grants or {})})

    def client(self) -> Any:
        return cast("Any", redis.Redis(unix_socket_path=self.address, protocol=2, driver_info=None))

    def ask(self, *command: str | bytes) -> Any:
        with self.client() as client:
            return client.execute_command(*command)

    def raw(self, session: str) -> bytes | None:
        """The bytes that are stored for a session."""
        return self.ask("GET", key_of(session))

    def put(self, session: str, stored: object) -> bytes:
        made = stored if isinstance(stored, bytes) else json.dumps(stored).encode()
        self.ask("SET", key_of(session), made)
        return made

    def document(self, session: str) -> dict[str, Any]:
        stored = self.raw(session)
        assert stored is not None
        return json.loads(stored)

    def remembered(self) -> dict[str, str]:
        """All rows of the memory: the digest of a customer, and what is remembered."""
        with suppress(sqlite3.OperationalError):  # nothing was remembered yet
            connection = sqlite3.connect(f"file:{self.folder / 'memory.sqlite'}?mode=ro", uri=True)
            try:
                return {prefix: json.loads(value)["text"] for prefix, value in connection.execute("SELECT prefix, value FROM store")}
            finally:
                connection.close()
        return {}


def subject_of(customer: str, workspace: str = "default") -> str:
    """Whose memory it is, as the store of the memory is told."""
    return json.dumps([workspace, customer])


def key_of(session: str) -> str:
    return f"conv:{session}:agent:session"


async def take(
    store: Store,
    engine: EngineName,
    given: str | Mapping[str, Any],
    *replies: Scripted,
    session: str | None = None,
    grants: Mapping[type, object] | None = None,
    on_event: Listener | None = None,
    **settings: Any,
) -> TurnResult:
    """Take one turn: by a script, by the model that is granted, or by the rules of the desk."""
    grants, session = dict(grants or {}), session or new_session()
    if grants.keys() <= {Model}:
        model = ScriptedModel(*replies) if replies else cast("ScriptedModel | None", grants.get(Model))
        return await store.shared(engine, model, **settings).run("desk", given, session=session, on_event=on_event)
    async with store.app(engine, *replies, grants=grants, **settings) as app:
        return await app.run("desk", given, session=session, on_event=on_event)


class SwitchedIds:
    """Ids that are others in every test."""

    now: CountingIds

    async def new(self) -> str:
        return await self.now.new()


class Hooked(ScriptedModel):
    """Follows a script, and does something before it gives the reply of a number, the first being 1."""

    def __init__(self, *replies: Scripted, at: int, do: Any) -> None:
        super().__init__(*replies)
        self._at = at
        self._do = do

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        if len(self.messages) + 1 == self._at:
            await self._do()
        return await super().reply(messages, tools=tools, schema=schema)


def goal(name: str = "g-1", **fields: Any) -> dict[str, Any]:
    """A goal as it is stored."""
    base: dict[str, Any] = {"id": name, "type": "sales.order", "status": "active", "priority": 50, "slots": {}, "missing": []}
    return {**base, "next_question": None, "updated_at": "2026-01-01T00:00:00+00:00", **fields}


def stored(session: str, *goals: dict[str, Any], stack: Sequence[str] | None = None, **fields: Any) -> dict[str, Any]:
    """A session as it is stored; the last goal of the stack is the active one."""
    names = [one["id"] for one in goals if one["status"] != "done"] if stack is None else list(stack)
    base: dict[str, Any] = {"session_id": session, "workspace_id": "default", "customer_id": f"c-{session}", "channel_type": "chat"}
    base |= {
        "active_goal_id": names[-1] if names else None,
        "goal_stack": names,
        "goals": {one["id"]: one for one in goals},
        "conversation": [],
    }
    return {**base, "version": 1, "updated_at": "2026-01-01T00:00:00+00:00", **fields}
