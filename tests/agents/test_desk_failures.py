"""Everything that can go wrong at the desk: each has its code and its node, and leaves the session and the memory as they were."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from interlock import TurnResult
from interlock.capabilities import MemoryReader, MemoryWriter, Message, Model, ModelReply, SessionReader, SessionWriter, Tool
from interlock.engine import EngineName
from interlock.errors import InputError, ModelRefused, ModelTimeout, ModelUnavailable, StoreFull, StoreUnavailable
from interlock.testing import Scripted, ScriptedModel
from interlock_agents.desk.nodes.orchestrator import MAX_TEXT, MAX_TOOLS
from tests.support.desk import ASKED, Hooked, Store, add, calls, ending, goal, key_of, new_session, plan, said, stored, subject_of, take
from tests.support.passing import ENOUGH, run_out

REMEMBER: dict[str, Any] = {"memory_update": "never to be remembered"}
PASS_1 = plan("sales.order")
OPEN = goal(slots={"product": "lamp"})
BLOCK: dict[str, Any] = {"status": "blocked", "missing": ["quantity"], "next_question": "How many?"}

FOUND = ASKED[:2]  # as far as a turn gets that cannot read its session


class Kept:
    """A session that is there already, and a look at whether a turn has changed anything."""

    def __init__(self, store: Store, document: Any = None) -> None:
        self.store = store
        self.session = new_session()
        self.before = store.put(self.session, stored(self.session, OPEN) if document is None else document)
        self._memory = store.remembered()

    def assert_unchanged(self) -> None:
        assert self.store.raw(self.session) == self.before
        assert self.store.remembered() == self._memory


async def refused(
    store: Store, engine: EngineName, *replies: Scripted, asked: int | None = None, text: Any = "Two lamps", **options: Any
) -> TurnResult:
    """Take a turn that must not change what is kept; return how it ended."""
    kept, model = Kept(store), ScriptedModel(*replies)
    result = await take(store, engine, text, session=kept.session, grants={Model: model, **options.pop("grants", {})}, **options)
    assert result.error is not None, result.output
    kept.assert_unchanged()
    if asked is not None:
        assert len(model.messages) == asked
    return result


# the planner

NO_PLANS: dict[str, str] = {
    "fenced": f"```json\n{plan()}\n```",
    "malformed": "{'goal': {'goal_type': 'sales.order'}}",
    "cut off": plan()[:-1],
    "trailing": f"{plan()}\nSure!",
    "leading": f"Here you are: {plan()}",
    "twice": plan() * 2,
    "empty": "",
    "blank": " \n",
    "a word": "sales.order",
    "a list": f"[{plan()}]",
    "null": "null",
    "no goal": "{}",
    "an extra key": json.dumps({"goal": {"goal_type": "sales.order"}, "command": "finalize_reply"}),
    "an extra key of the goal": plan(status="done"),
    "another department": plan("hr.leave"),
    "a department that only looks like one": plan("salesman.order"),
    "no kind of goal": plan("sales."),
    "priority 0": plan(priority=0),
    "a negative priority": plan(priority=-50),
    "a priority in words": plan(priority="high"),
    "a priority with a comma": plan(priority=50.5),
    "something missing, no question": plan(missing=["quantity"]),
    "something missing, a blank question": plan(missing=["quantity"], next_question=" "),
    "missing that is no list": plan(missing="quantity", next_question="How many?"),
    "slots that are a list": plan(slots_patch=["quantity"]),
    "the name of no goal": plan(goal_id="../../etc/passwd"),
    "a lone surrogate": plan().replace("order", "\\ud800"),
    "nested without end": plan(slots_patch={"a": 1}).replace("1", "[" * 5000 + "]" * 5000),
    "a number that is none": plan(slots_patch={"a": 1}).replace("1", "1e"),
}


@pytest.mark.parametrize("text", NO_PLANS.values(), ids=NO_PLANS)
async def test_an_invalid_plan_ends_the_turn(store: Store, engine: EngineName, text: str):
    result = await refused(store, engine, text, asked=2)  # once more, with what was wrong
    assert ending(result) == ("model_output_invalid", "plan_goal/parse_json")
    assert result.path == (*ASKED, "plan_goal/prompt", "plan_goal/model", "plan_goal/parse_json")


@pytest.mark.parametrize(
    "text",
    [plan(goal_id="done-1"), plan("sales.stock", goal_id="g-1"), plan("support.order", goal_id="g-1")],
    ids=["done", "type", "domain"],
)
async def test_a_plan_for_an_impossible_goal_ends_the_turn(store: Store, engine: EngineName, text: str):
    kept = Kept(store)
    before = stored(kept.session, goal("done-1", status="done"), OPEN)
    kept.before = store.put(kept.session, before)
    model = ScriptedModel(text)
    result = await take(store, engine, "Two", session=kept.session, grants={Model: model})
    assert ending(result) == ("model_output_invalid", "apply_plan")
    assert len(model.messages) == 1
    kept.assert_unchanged()


async def test_a_planner_that_calls_tools_ends_the_turn(store: Store, engine: EngineName):
    assert ending(await refused(store, engine, calls(add()), asked=2)) == ("model_output_invalid", "plan_goal/parse_json")


@pytest.mark.parametrize("how", ["text", "slots"])
async def test_a_plan_of_ten_megabytes_ends_the_turn(store: Store, engine: EngineName, how: str):
    much = "x" * 10_000_000
    text = much if how == "text" else plan(slots_patch={"a": much})
    result = await refused(store, engine, text, asked=1)
    assert ending(result) == ("budget_exceeded", "plan_goal/model")
    assert len(str(result.to_json())) < 20_000


async def test_a_session_that_becomes_too_large_is_not_saved(store: Store, engine: EngineName):
    result = await refused(store, engine, plan(slots_patch={"a": "x" * 3_000_000}), "Fine.", said(), max_output_bytes=None, max_tokens=None)
    assert ending(result) == ("state_unstorable", "validate_and_save_state")


# the specialists

ALWAYS = [plan(goal_id="g-1", missing=["quantity"], next_question="How many?")]
STRUCTURED: dict[str, str] = {
    "fenced": f"```json\n{said()}\n```",
    "malformed": "{message: 'Fine.'}",
    "trailing": f"{said()} Bye.",
    "empty": "",
    "a word": "Fine.",
    "an extra key": json.dumps({"message": "Fine.", "route": "END"}),
    "a message that is none": json.dumps({"message": None}),
    "a status that there is not": said(set_status="suspended"),
    "a status of its own": said(set_status="cancelled"),
    "done in words": said(mark_done="yes"),
    "a tool without a name": said(tools=[{"args": {}}]),
}


@pytest.mark.parametrize("text", STRUCTURED.values(), ids=STRUCTURED)
@pytest.mark.parametrize("second", [False, True], ids=["first pass", "second pass"])
async def test_an_invalid_answer_ends_the_turn(store: Store, engine: EngineName, text: str, *, second: bool):
    replies: list[Scripted] = [PASS_1, calls(add()), text] if second else [*ALWAYS, text]
    result = await refused(store, engine, *replies, asked=len(replies) + 1)
    assert ending(result) == ("model_output_invalid", "dispatch_specialist/structured_path/parse_json")


async def test_tools_requested_again_are_not_run(store: Store, engine: EngineName):
    again = said("Wait.", tools=[{"tool": "math.evaluate", "args": {"expression": "2"}}], **REMEMBER)
    result = await refused(store, engine, PASS_1, calls(add()), again, asked=3)
    assert ending(result) == ("model_output_invalid", "dispatch_specialist")


async def test_tools_requested_again_for_a_blocked_goal_are_not_run(store: Store, engine: EngineName):
    wanted = said("", tools=[{"tool": "math.evaluate", "args": {"expression": "2"}}])
    result = await refused(store, engine, *ALWAYS, wanted, wanted, asked=3)
    assert ending(result) == ("model_output_invalid", "dispatch_specialist")


@pytest.mark.parametrize(
    "tool", ["knowledge_base.search", "os.system", "", "inventory.*", "Math.Evaluate", "inventory.query\n", "x" * 10_000]
)
async def test_a_tool_outside_the_list_is_denied_as_a_call(store: Store, engine: EngineName, tool: str):
    for wanted in (calls((tool, {})), calls(add(), (tool, {}))):
        result = await refused(store, engine, PASS_1, wanted, said(**REMEMBER), asked=2)
        assert ending(result) == ("tool_denied", "dispatch_specialist/tool_path")


@pytest.mark.parametrize("tool", ["knowledge_base.search", "os.system", "", "inventory.*"])
async def test_a_tool_outside_the_list_is_denied_as_a_request(store: Store, engine: EngineName, tool: str):
    wanted = said("", tools=[{"tool": "math.evaluate", "args": {"expression": "1"}}, {"tool": tool, "args": {}}])
    result = await refused(store, engine, *ALWAYS, wanted, said(**REMEMBER), asked=2)
    assert ending(result) == ("tool_denied", "dispatch_specialist")


async def test_a_tool_of_the_other_specialist_is_denied(store: Store, engine: EngineName):
    result = await refused(store, engine, plan("support.question"), calls(("inventory.query", {"query": "lamp"})), asked=2)
    assert ending(result) == ("tool_denied", "dispatch_specialist/tool_path")


@pytest.mark.parametrize("reply", ["", " \n", ModelReply()])
async def test_an_answer_without_text_and_calls_is_invalid(store: Store, engine: EngineName, reply: Scripted):
    result = await refused(store, engine, PASS_1, reply, asked=2)
    assert ending(result) == ("model_output_invalid", "dispatch_specialist/tool_path")


async def test_too_many_tool_calls_are_refused(store: Store, engine: EngineName):
    result = await refused(store, engine, PASS_1, calls(*[add()] * (MAX_TOOLS + 1)), asked=2)
    assert ending(result) == ("model_output_invalid", "dispatch_specialist")
    session = new_session()
    assert (await take(store, engine, "Two", PASS_1, calls(*[add()] * MAX_TOOLS), said("Fine."), session=session)).output == "Fine."


@pytest.mark.parametrize("message", ["", " \n\u2003"])
async def test_an_empty_message_is_refused_in_the_last_node(store: Store, engine: EngineName, message: str):
    for replies in ([PASS_1, calls(add()), said(message)], [*ALWAYS, said(message)]):
        result = await take(store, engine, "Two lamps", *replies)
        assert ending(result) == ("model_output_invalid", "finalize_reply")
        assert result.output is None


@pytest.mark.parametrize(
    "updates",
    [{"set_status": "blocked"}, {"set_status": "blocked", "missing": ["a"]}, {"set_status": "blocked", "next_question": "a?"}],
)
async def test_a_session_that_a_specialist_makes_invalid_is_not_saved(store: Store, engine: EngineName, updates: dict[str, Any]):
    result = await refused(store, engine, PASS_1, calls(add()), said("Wait.", **updates, **REMEMBER), asked=3)
    assert ending(result) == ("state_invalid", "validate_and_save_state")


# the model

FAILING: dict[str, tuple[Exception, str]] = {
    "late": (ModelTimeout("It is late."), "model_timeout"),
    "unreachable": (ModelUnavailable("Nobody is there."), "model_unavailable"),
    "refusing": (ModelRefused("No."), "model_refused"),
    "broken": (RuntimeError("hunter2"), "capability_failed"),
    "a bug": (KeyError("hunter2"), "capability_failed"),
}
CALLS: dict[str, tuple[list[Scripted], str]] = {
    "planner": ([], "plan_goal/model"),
    "tools": ([PASS_1], "dispatch_specialist/tool_path/model"),
    "second pass": ([PASS_1, calls(add())], "dispatch_specialist/structured_path/model"),
    "question": ([*ALWAYS], "dispatch_specialist/structured_path/model"),
}


@pytest.mark.parametrize(("error", "code"), FAILING.values(), ids=FAILING)
@pytest.mark.parametrize(("before", "node"), CALLS.values(), ids=CALLS)
async def test_a_model_that_fails_ends_the_turn(
    store: Store, engine: EngineName, *, before: list[Scripted], node: str, error: Exception, code: str
):
    result = await refused(store, engine, *before, error, asked=len(before) + 1)
    assert ending(result) == (code, node)
    assert "hunter2" not in str(result.to_json())


async def test_a_model_that_hangs_is_a_timeout(store: Store, engine: EngineName):
    hanging = Hooked(PASS_1, "never said", at=2, do=asyncio.Event().wait)
    kept = Kept(store)
    async with asyncio.timeout(10):
        result = await take(store, engine, "Two", session=kept.session, grants={Model: hanging}, max_call_seconds=0.2)
    assert ending(result) == ("model_timeout", "dispatch_specialist/tool_path/model")
    kept.assert_unchanged()


@pytest.mark.parametrize(("calls_left", "node"), [(0, "plan_goal/model"), (1, "dispatch_specialist/tool_path/model")])
async def test_a_turn_without_a_second_model_call_ends(store: Store, engine: EngineName, calls_left: int, node: str):
    result = await refused(store, engine, PASS_1, calls(add()), said(), asked=calls_left, max_model_calls=calls_left)
    assert ending(result) == ("budget_exceeded", node)


@pytest.mark.parametrize("at", range(3))
async def test_a_model_that_returns_invalid_text_ends_the_turn(store: Store, engine: EngineName, at: int):
    replies: list[Scripted] = [PASS_1, calls(add()), said()]
    replies[at] = "a \ud800 b"
    result = await refused(store, engine, *replies, asked=at + 1)
    code, node = ending(result)
    assert code in {"capability_result_invalid", "model_output_invalid"}
    assert node is not None
    assert node.endswith("/model")


class Rubbish(ScriptedModel):
    """Returns something that is no reply."""

    def __init__(self, returned: Any) -> None:
        super().__init__()
        self._returned = returned

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        return self._returned


@pytest.mark.parametrize("returned", [None, "text", {"text": "x"}, ModelReply(text=5)])  # pyright: ignore[reportArgumentType]
async def test_a_model_that_returns_something_else_ends_the_turn(store: Store, engine: EngineName, returned: Any):
    kept = Kept(store)
    result = await take(store, engine, "Two", session=kept.session, grants={Model: Rubbish(returned)})
    assert ending(result) == ("capability_result_invalid", "plan_goal/model")
    kept.assert_unchanged()


# the tools


def breaks(query: str) -> str:
    """Break."""
    raise RuntimeError("hunter2")


def leaves(query: str) -> str:
    """Leave."""
    sys.exit(3)


async def hangs(query: str) -> str:
    """Hang."""
    await asyncio.Event().wait()
    return query


def gives_rubbish(query: str) -> Any:
    """Return something that is no JSON data."""
    return object()


def gives_a_surrogate(query: str) -> str:
    """Return what is no text."""
    return "a \ud800 b"


def gives_much(query: str) -> str:
    """Return ten megabytes."""
    return "x" * 10_000_000


def gives_nan(query: str) -> float:
    """Return what is no number."""
    return float("nan")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("breaks", "'inventory.query' failed: RuntimeError."),
        ("leaves", "'inventory.query' failed: SystemExit."),
        ("hangs", "'inventory.query' took longer than 0.2 seconds."),
        ("gives_rubbish", "'inventory.query' returned a value that is not JSON data: object."),
        ("gives_a_surrogate", "'inventory.query' "),
    ],
)
async def test_a_failed_tool_is_reported_to_the_second_call(store: Store, engine: EngineName, function: str, error: str):
    wanted = calls(("inventory.query", {"query": "lamp"}), add("2 + 2"))
    model = ScriptedModel(PASS_1, wanted, said("I could not find that out.", mark_done=True))
    settings: dict[str, Any] = {"tool_functions": {"inventory.query": f"{__name__}:{function}"}, "tool_seconds": 0.2}
    async with asyncio.timeout(10):
        result = await take(store, engine, "Two", grants={Model: model}, **settings)
    assert result.output == "I could not find that out."
    broken, sound = json.loads(model.messages[-1][-1].text)["tool_results"]
    assert broken["result"] is None
    assert broken["error"].startswith(error)
    assert (sound["result"]["value"], sound["error"]) == ("4", None)
    assert "hunter2" not in str(result.to_json())


async def test_the_size_of_a_tool_result_is_limited(store: Store, engine: EngineName):
    model = ScriptedModel(PASS_1, calls(("inventory.query", {"query": "lamp"})), said("Much.", mark_done=True))
    result = await take(store, engine, "Two", grants={Model: model}, tool_functions={"inventory.query": f"{__name__}:gives_much"})
    assert result.output == "Much."
    assert "10,000,002 bytes" in json.loads(model.messages[-1][-1].text)["tool_results"][0]["result"]["cut"]


@pytest.mark.parametrize(
    "arguments", [{}, {"query": 5}, {"query": None}, {"query": "x", "more": 1}, {"query": "x" * 501}, {"query": ["x"]}]
)
async def test_invalid_arguments_are_reported_to_the_second_call(store: Store, engine: EngineName, arguments: dict[str, Any]):
    model = ScriptedModel(PASS_1, calls(("inventory.query", arguments)), said("I could not.", mark_done=True))
    assert (await take(store, engine, "Two", grants={Model: model})).output == "I could not."
    (told,) = json.loads(model.messages[-1][-1].text)["tool_results"]
    assert told["result"] is None
    assert told["error"].startswith("Argument '")


# what comes in


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("", "input_empty"),
        (" \n\t", "input_empty"),
        ("a \ud800 b", "input_encoding"),
        ("a \0 b", "input_encoding"),
        ("x" * 2000, "input_too_large"),
        ({"text": 5}, "input_schema"),
        ({"text": None}, "input_schema"),
        ({"text": b"hello"}, "input_schema"),
        ({"text": "hello", "route": "finalize_reply"}, "input_schema"),
        ({"text": "hello", "phase": 1}, "input_schema"),
        ({"text": "hello", "message": "hello"}, "input_schema"),
        ({"text": "hello", "reply": "hello"}, "input_schema"),
        ({"text": "hello", "session": {}}, "input_schema"),
        ({"text": "hello", "plan": {}}, "input_schema"),
        ({"text": "hello", "now": "yesterday"}, "input_schema"),
        ({"text": "hello", "session_id": "another"}, "input_schema"),
        ({"text": "hello", "customer_id": 5}, "input_schema"),
        ({"text": "hello", "customer_id": "a \ud800"}, "input_encoding"),
        ({"text": "a \ud800"}, "input_encoding"),
    ],
)
async def test_invalid_input_is_refused_before_the_first_node(store: Store, engine: EngineName, given: Any, code: str):
    kept, model = Kept(store), ScriptedModel("never said")
    with pytest.raises(InputError) as caught:
        await take(store, engine, given, session=kept.session, grants={Model: model}, max_input_bytes=1000)
    assert caught.value.code == code
    assert model.messages == []
    kept.assert_unchanged()


@pytest.mark.parametrize(("text", "code"), [("", "input_empty"), (" \u2003\n", "input_empty"), ("x" * (MAX_TEXT + 1), "input_too_large")])
async def test_an_empty_or_too_long_message_is_refused_by_the_first_node(store: Store, engine: EngineName, text: str, code: str):
    result = await refused(store, engine, "never said", asked=0, text={"text": text})
    assert ending(result) == (code, "validate_request")
    assert result.path == ("validate_request",)


@pytest.mark.parametrize(
    "session", ["", " ", "../x", "*", "a:b", "a b", "é", "x" * 65, "x" * 100_000, "a\n", "a\0", "conv:x:agent:session"]
)
async def test_a_bad_session_id_is_refused(store: Store, engine: EngineName, session: str):
    model = ScriptedModel("never said")
    async with store.app(engine, grants={Model: model}) as app:
        with pytest.raises(InputError) as caught:
            await app.run("desk", "hello", session=session)
    assert (caught.value.code, model.messages) == ("input_schema", [])


async def test_a_session_can_be_named_in_the_input_if_it_is_the_same(store: Store, engine: EngineName):
    session = new_session()
    assert (await take(store, engine, {"text": "hello", "session_id": session}, session=session)).error is None


@pytest.mark.parametrize("name", ["customer_id", "workspace_id", "channel_type"])
async def test_a_session_refuses_another_customer(store: Store, engine: EngineName, name: str):
    result = await refused(store, engine, "never said", asked=0, text={"text": "hello", name: "somebody else's"})
    assert ending(result) == ("input_schema", "load_or_create_state")


async def test_a_session_accepts_its_customer(store: Store, engine: EngineName):
    session, given = new_session(), {"text": "hello", "customer_id": "c", "workspace_id": "w", "channel_type": "mail"}
    for _ in range(2):
        assert (await take(store, engine, given, session=session)).error is None
    assert (await take(store, engine, "hello", session=session)).state["session"].customer_id == "c"


# what is stored

CORRUPT: dict[str, Any] = {
    "no JSON": b"{",
    "no text": b"\xff\xfe",
    "empty": b"",
    "blank": b" ",
    "a word": b'"hello"',
    "null": b"null",
    "a list": b"[]",
    "no version": {"session_id": "s"},
    "version 0": stored("s", goal(), version=0),
    "version -1": stored("s", goal(), version=-1),
    "version in words": stored("s", goal(), version="1"),
    "half a version": stored("s", goal(), version=1.5),
    "trailing": json.dumps(stored("s", goal())).encode() + b"}",
    "a lone surrogate": json.dumps(stored("s", goal(slots={"a": "\ud800"}))).encode(),
    "not a number": json.dumps(stored("s", goal(slots={"a": float("nan")}))).encode(),
    "nested without end": b'{"version":1,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "too large": json.dumps(stored("s", goal(slots={"a": "x" * 2_100_000}))).encode(),
}
BROKEN: dict[str, dict[str, Any]] = {
    "only a version": {"version": 1},
    "no active goal behind the name": {"active_goal_id": "g-2"},
    "a stack and no active goal": {"active_goal_id": None},
    "a goal of the stack that is not there": {"goal_stack": ["g-0", "g-1"]},
    "a goal on the stack twice": {"goal_stack": ["g-1", "g-1"]},
    "an orphan": {"goals": {"g-0": goal("g-0", status="suspended"), "g-1": goal()}},
    "a done goal on the stack": {"goals": {"g-1": goal(status="done")}},
    "blocked, nothing missing": {"goals": {"g-1": goal(status="blocked", next_question="Which?")}},
    "blocked, nothing to ask": {"goals": {"g-1": goal(status="blocked", missing=["a"])}},
    "asleep and active": {"goals": {"g-1": goal(status="suspended")}},
    "two awake": {"goals": {"g-0": goal("g-0"), "g-1": goal()}, "goal_stack": ["g-0", "g-1"]},
    "a goal of another name": {"goals": {"g-1": goal("g-0")}},
    "another department": {"goals": {"g-1": goal(type="hr.leave")}},
    "priority 0": {"goals": {"g-1": goal(priority=0)}},
    "a field of its own": {"schema": 2},
    "a customer that is a number": {"customer_id": 1},
    "another session": {"session_id": "another"},
}


def assert_corrupt(result: TurnResult, model: ScriptedModel) -> None:
    assert ending(result) == ("store_corrupt", "load_or_create_state")
    assert result.path == FOUND
    assert model.messages == []


@pytest.mark.parametrize("document", CORRUPT.values(), ids=CORRUPT)
async def test_an_invalid_document_is_not_changed(store: Store, engine: EngineName, document: Any):
    kept, model = Kept(store, document), ScriptedModel("never said")
    assert_corrupt(await take(store, engine, "Two", session=kept.session, grants={Model: model}), model)
    kept.assert_unchanged()


@pytest.mark.parametrize("wrong", BROKEN.values(), ids=BROKEN)
async def test_an_invalid_session_is_not_changed(store: Store, engine: EngineName, wrong: dict[str, Any]):
    kept, model = Kept(store), ScriptedModel("never said")
    document = wrong if wrong == {"version": 1} else {**stored(kept.session, goal()), **wrong}
    kept.before = store.put(kept.session, document)
    assert_corrupt(await take(store, engine, "Two", session=kept.session, grants={Model: model}), model)
    kept.assert_unchanged()


@pytest.mark.parametrize(
    "command", [["RPUSH", "x"], ["HSET", "x", "y"], ["SADD", "x"], ["XADD", "*", "x", "y"]], ids=["list", "hash", "set", "stream"]
)
async def test_a_key_of_another_type_is_not_changed(store: Store, engine: EngineName, command: list[str]):
    session, model = new_session(), ScriptedModel("never said")
    store.ask(command[0], key_of(session), *command[1:])
    before = store.ask("DUMP", key_of(session))
    assert_corrupt(await take(store, engine, "Two", session=session, grants={Model: model}), model)
    assert store.ask("DUMP", key_of(session)) == before


async def test_a_session_saved_by_another_turn_is_not_overwritten(store: Store, engine: EngineName):
    kept = Kept(store)

    async def meddle() -> None:
        kept.before = store.put(kept.session, stored(kept.session, OPEN, version=2))

    model = Hooked(PASS_1, calls(add()), said(**REMEMBER), at=3, do=meddle)
    result = await take(store, engine, "Two", session=kept.session, grants={Model: model})
    assert ending(result) == ("state_conflict", "validate_and_save_state")
    kept.assert_unchanged()


async def test_a_session_created_by_another_turn_is_not_overwritten(store: Store, engine: EngineName):
    session = new_session()

    async def meddle() -> None:
        store.put(session, stored(session, OPEN))

    model = Hooked(PASS_1, said(**REMEMBER), at=2, do=meddle)
    result = await take(store, engine, "Two", session=session, grants={Model: model})
    assert ending(result) == ("state_conflict", "validate_and_save_state")
    assert store.document(session) == stored(session, OPEN)


async def test_a_session_deleted_during_the_turn_is_a_conflict(store: Store, engine: EngineName):
    kept = Kept(store)

    async def expire() -> None:
        store.ask("DEL", key_of(kept.session))

    result = await take(store, engine, "Two", session=kept.session, grants={Model: Hooked(PASS_1, "Fine.", said(), at=2, do=expire)})
    assert ending(result) == ("state_conflict", "validate_and_save_state")
    assert store.raw(kept.session) is None


# stores that are not there


async def test_without_a_session_store_no_model_is_called(own_store: Store, engine: EngineName):
    await own_store.stop()
    model = ScriptedModel("never said")
    result = await take(own_store, engine, "Two", grants={Model: model})
    assert ending(result) == ("store_unavailable", "load_or_create_state")
    assert (result.path, model.messages, own_store.remembered()) == (FOUND, [], {})


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_no_memory_is_written_if_the_session_store_fails(own_store: Store, engine: EngineName, at: int):
    kept = Kept(own_store)
    model = Hooked(PASS_1, calls(add()), said(**REMEMBER), at=at, do=own_store.stop)
    result = await take(own_store, engine, "Two", session=kept.session, grants={Model: model})
    assert ending(result) == ("store_unavailable", "validate_and_save_state")
    assert (len(model.messages), own_store.remembered()) == (3, {})
    await own_store.start()
    kept.assert_unchanged()
    after = await take(own_store, engine, "Two", PASS_1, calls(add()), said(**REMEMBER), session=kept.session)
    assert after.error is None
    assert (own_store.document(kept.session)["version"], list(own_store.remembered().values())) == (2, ["never to be remembered"])


class Wrapped:
    """A memory that does something before it remembers or recalls."""

    def __init__(self, *, on_recall: Any = None, on_remember: Any = None) -> None:
        self._on_recall, self._on_remember = on_recall, on_remember
        self.kept: list[tuple[str, str]] = []

    async def recall(self, subject: str) -> str | None:
        if isinstance(self._on_recall, Exception):
            raise self._on_recall
        return self._on_recall

    async def remember(self, subject: str, text: str) -> None:
        if isinstance(self._on_remember, Exception):
            raise self._on_remember
        if self._on_remember is not None:
            await self._on_remember()
        self.kept.append((subject, text))


async def test_a_session_store_that_fails_after_the_save_does_not_matter(own_store: Store, engine: EngineName):
    session, memory = new_session(), Wrapped(on_remember=own_store.stop)
    grants: dict[type, object] = {MemoryReader: memory, MemoryWriter: memory}
    given = {"text": "Two", "customer_id": "anna"}
    result = await take(own_store, engine, given, PASS_1, calls(add()), said("Fine.", memory_update="x"), session=session, grants=grants)
    assert (result.error, result.output, memory.kept) == (None, "Fine.", [(subject_of("anna"), "x")])
    await own_store.start()
    assert own_store.document(session)["version"] == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreUnavailable("Gone."), "store_unavailable"), (StoreFull("Full."), "store_full"), (OSError("hunter2"), "capability_failed")],
)
async def test_without_a_memory_no_model_is_called(store: Store, engine: EngineName, error: Exception, code: str):
    memory = Wrapped(on_recall=error)
    result = await refused(store, engine, "never said", asked=0, grants={MemoryReader: memory, MemoryWriter: memory})
    assert ending(result) == (code, "read_memory")


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreUnavailable("Gone."), "store_unavailable"), (StoreFull("Full."), "store_full"), (OSError("hunter2"), "capability_failed")],
)
async def test_a_failed_memory_ends_the_turn_after_the_session_is_saved(store: Store, engine: EngineName, error: Exception, code: str):
    kept, memory = Kept(store), Wrapped(on_remember=error)
    grants: dict[type, object] = {MemoryReader: memory, MemoryWriter: memory}
    result = await take(store, engine, "Two", PASS_1, calls(add()), said(**REMEMBER), session=kept.session, grants=grants)
    assert ending(result) == (code, "write_memory")
    assert (store.document(kept.session)["version"], memory.kept) == (2, [])


async def test_a_damaged_memory_file_is_not_changed(own_store: Store, engine: EngineName):
    damaged = b"no database " * 1000
    (own_store.folder / "memory.sqlite").write_bytes(damaged)
    model = ScriptedModel("never said")
    result = await take(own_store, engine, {"text": "Two", "customer_id": "anna"}, grants={Model: model})
    assert ending(result) == ("store_corrupt", "read_memory")
    assert model.messages == []
    assert (own_store.folder / "memory.sqlite").read_bytes() == damaged


async def test_an_invalid_memory_is_not_written_but_the_session_is_saved(store: Store, engine: EngineName):
    kept = Kept(store)
    result = await take(store, engine, "Two", PASS_1, calls(add()), said(memory_update="a \0 b"), session=kept.session)
    assert ending(result) == ("state_unstorable", "write_memory")
    assert store.document(kept.session)["version"] == 2


class Broken:
    """A session store that returns something that is no document."""

    def __init__(self, returned: Any) -> None:
        self._returned = returned
        self.saved = 0

    async def load(self, session_id: str) -> Any:
        return self._returned

    async def save(self, session_id: str, document: Any, *, expected: int) -> None:
        self.saved += 1


@pytest.mark.parametrize("returned", [[], b"{}", {"version": 1}, 1, "\ud800"])
async def test_an_invalid_return_value_of_the_session_store_is_an_error(store: Store, engine: EngineName, returned: Any):
    sessions, model = Broken(returned), ScriptedModel("never said")
    grants: dict[type, object] = {Model: model, SessionReader: sessions, SessionWriter: sessions}
    result = await take(store, engine, "Two", grants=grants)
    assert ending(result) == ("capability_result_invalid", "load_or_create_state")
    assert (model.messages, sessions.saved) == ([], 0)


@pytest.mark.usefixtures("time_passes")
async def test_a_turn_that_runs_out_of_time_changes_nothing(store: Store, engine: EngineName):
    hanging, kept = Hooked(PASS_1, calls(add()), said(), at=3, do=run_out), Kept(store)
    async with asyncio.timeout(10):
        result = await take(store, engine, "Two", session=kept.session, grants={Model: hanging}, max_turn_seconds=ENOUGH)
    assert ending(result) == ("budget_exceeded", "dispatch_specialist/structured_path/model")
    kept.assert_unchanged()


async def test_a_turn_that_is_cancelled_changes_nothing(store: Store, engine: EngineName):
    asked = asyncio.Event()

    async def wait() -> None:
        asked.set()
        await asyncio.Event().wait()

    kept = Kept(store)
    async with store.app(engine, grants={Model: Hooked(PASS_1, calls(add()), said(), at=3, do=wait)}) as app:
        turn = asyncio.create_task(app.run("desk", "Two", session=kept.session))
        await asked.wait()
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
    kept.assert_unchanged()
