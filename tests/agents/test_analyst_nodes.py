"""The analyst's seven nodes as what they are: async functions, called with what they read and are granted."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.capabilities import Chunk, Tool, ToolRequest, ToolResult, Usage
from interlock.errors import (
    BudgetExceeded,
    InputEmpty,
    InputSchema,
    ModelOutputInvalid,
    ModelUnavailable,
    ToolDenied,
    ToolError,
    ToolInputInvalid,
)
from interlock.system import PlainSpeech
from interlock.testing import FixedClock, ScriptedModel
from interlock_agents.analyst.calls import filled, normalised, refusals
from interlock_agents.analyst.capabilities import Profile, Verdict
from interlock_agents.analyst.nodes import generator, ingress, is_useful, planner, summarizer, tool_executor, tool_router, verifier
from interlock_agents.analyst.plan import MAX_CALLS, PlannedCall, WantedCall
from interlock_agents.analyst.state import (
    Admitted,
    Ai,
    Complex,
    Failure,
    Good,
    Human,
    Lacking,
    Message,
    Scratchpad,
    Simple,
    Summarised,
    ToolOutput,
    Trim,
    Untrimmed,
    UserContext,
    appended,
    came_after,
    marked,
)
from tests.support.analyst import call, search, talk, wants

SEARCH = Tool(
    name="search",
    description="Find documents.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": False},
)
SUM = Tool(name="calculate", description="Calculate.", parameters={"type": "object", "properties": {"expression": {"type": "string"}}})
CONTEXT = UserContext(permissions=("search", "calculate"), tools=(SEARCH, SUM), max_retries=2, window=4)
REFUSED = UserContext(refusal="it is not allowed")
FOUND = ToolOutput(id="call-1", tool="search", args={"query": "churn"}, result={"documents": [{"title": "Churn"}], "count": 1})
LAST = PlannedCall(id="call-9", tool="search", args={"query": "before"})
EMPTY = ToolOutput(id="call-2", tool="search", args={"query": "zzqx"}, result={"documents": [], "count": 0})
FAILED = ToolOutput(id="call-3", tool="search", args={"query": "x"}, error="It is out of order.", code="tool_unavailable")


class Users:
    """Profiles, a policy and a toolbox of a test."""

    def __init__(self, *, allowed: bool = True, tools: tuple[str, ...] = ("search", "calculate")) -> None:
        self._verdict = Verdict(allowed=allowed, reason="" if allowed else "it is not allowed", tools=tools, max_retries=1, window=6)
        self.judged: list[tuple[str, str, tuple[str, ...]]] = []

    async def load(self, user_id: str) -> Profile:
        return Profile(user_id=user_id, permissions=("search",), preferences={"language": "Danish"})

    async def judge(self, profile: Profile, text: str, tools: tuple[str, ...]) -> Verdict:
        self.judged.append((profile.user_id, text, tools))
        return self._verdict

    async def offered(self, specialist: str) -> tuple[Tool, ...]:
        assert specialist == "analyst"
        return SEARCH, SUM


class Gateway:
    """Runs tools: each waits until so many have begun, and then says what it was called with, or what it is told to."""

    def __init__(self, *, wanted: int = 1, says: dict[str, ToolResult | Exception] | None = None) -> None:
        self.asked: list[ToolRequest] = []
        self.ended: list[str] = []
        self._wanted = wanted
        self._all = asyncio.Event()
        self._says = says or {}

    async def run(self, specialist: str, request: ToolRequest) -> ToolResult:
        assert specialist == "analyst"
        self.asked.append(request)
        if len(self.asked) >= self._wanted:
            self._all.set()
        await self._all.wait()
        self.ended.append(request.tool)
        said = self._says.get(request.tool, ToolResult(tool=request.tool, result={"args": request.args, "rows": [[7, "seven"]]}))
        if isinstance(said, Exception):
            raise said
        return said


class Told:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def emit(self, name: str, data: dict[str, Any]) -> None:
        self.events.append((name, data))


async def enter(
    *messages: Message, user: str = "ada", owner: str | None = None, seen: str = "", start: float | None = None, users: Users | None = None
) -> Admitted:
    them = users or Users()
    return await ingress(messages, user, owner, seen, start, profiles=them, policy=them, toolbox=them, clock=FixedClock())


async def plan_for(
    model: ScriptedModel,
    *,
    context: UserContext = CONTEXT,
    retries: int = 0,
    pad: Scratchpad | None = None,
    outputs: tuple[ToolOutput, ...] = (),
    parts: tuple[str, ...] = (),
) -> Any:
    history = (Human(content="Earlier?"), Ai(content="Yes."), Human(content="Now?"))
    known = (pad or Scratchpad(), "2026-01-01", parts, (), outputs, (LAST,))
    return await planner("Now?", history, "They like tea.", context, not context.refusal, retries, *known, model=model)


async def answer(
    model: ScriptedModel, *outputs: ToolOutput, context: UserContext = CONTEXT, ask: str = "", pad: Scratchpad | None = None
) -> Any:
    history = (Human(content="Earlier?"), Ai(content="Yes."), Human(content="Now?"))
    pad = pad or Scratchpad()
    known = (ask, outputs, pad, "2026-01-01", ("Only 2025.",), (LAST,))
    return await generator("Now?", history, "They like tea.", context, not context.refusal, *known, model=model, speech=PlainSpeech())


def asked(model: ScriptedModel) -> dict[str, Any]:
    """What the model was given to know the last time."""
    system, user = model.messages[-1]
    assert (system.role, user.role) == ("system", "user")
    return json.loads(user.text)


# messages

SAID = st.one_of(st.builds(Human, content=st.text(max_size=5)), st.builds(Ai, content=st.text(max_size=5)))
ANY = st.one_of(SAID, st.builds(Trim, keep=st.integers(-3, 8)))


@given(st.lists(SAID, max_size=8), st.lists(SAID, max_size=8))
def test_messages_are_only_ever_added(before: list[Message], new: list[Message]):
    assert appended(tuple(before), tuple(new)) == (*before, *new)


@given(st.lists(SAID, max_size=8), st.lists(ANY, max_size=8))
def test_only_a_trim_drops_messages_and_only_the_oldest(before: list[Message], new: list[Message]):
    result = appended(tuple(before), tuple(new))
    everything = (*before, *(one for one in new if not isinstance(one, Trim)))
    assert result == everything[len(everything) - len(result) :]
    assert not any(isinstance(one, Trim) for one in result)
    behind = list(reversed(new))
    last = next((number for number, one in enumerate(behind) if isinstance(one, Trim)), None)
    if last is not None:
        trim = behind[last]
        assert isinstance(trim, Trim)
        assert len(result) <= max(0, trim.keep) + last


@given(st.lists(SAID, max_size=6), st.lists(SAID, max_size=6), st.lists(ANY, max_size=6))
def test_a_mark_detects_changed_messages(kept: list[Message], new: list[Message], other: list[Message]):
    mark = marked(tuple(kept))
    assert came_after((*kept, *new), mark) == tuple(new)
    forged = appended(tuple(kept), tuple(other))
    found = came_after(forged, mark)
    assert found is None or forged[: len(kept)] == tuple(kept)


# ingress


async def test_ingress_accepts_a_question_and_loads_the_permissions():
    users = Users(tools=("search",))
    admitted = await enter(Human(content=" Hello "), Human(content="there\n"), users=users)
    assert (admitted.question, admitted.owner, admitted.safety_check) == ("Hello \nthere", "ada", True)
    assert admitted.user_context == UserContext(
        permissions=("search",), preferences={"language": "Danish"}, tools=(SEARCH,), max_retries=1, window=6
    )
    assert admitted.start_time == datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert users.judged == [("ada", "Hello \nthere", ("search", "calculate"))]
    assert (admitted.tool_outputs, admitted.scratchpad, admitted.retry_count, admitted.phase) == ((), Scratchpad(), 0, "plan")


async def test_ingress_records_the_reason_of_a_refusal():
    admitted = await enter(Human(content="Evil."), users=Users(allowed=False, tools=()))
    assert (admitted.safety_check, admitted.user_context.refusal, admitted.user_context.tools) == (False, "it is not allowed", ())


async def test_ingress_continues_a_session_of_the_same_user():
    history = (Human(content="One."), Ai(content="First."))
    admitted = await enter(*history, Human(content="Two."), owner="ada", seen=marked(history), start=5.0)
    assert (admitted.question, admitted.start_time) == ("Two.", 5.0)


@pytest.mark.parametrize("user", ["", " ", "a b", "a\n", "é", "a\0", "x" * 1025, "x" * 100_000, "\uff21"])
async def test_ingress_refuses_an_invalid_user_id(user: str):
    with pytest.raises(InputSchema):
        await enter(Human(content="Hi."), user=user)


@pytest.mark.parametrize("user", ["a", "ada.l@example.org", "A-z_09+x", "x" * 1024, "acme/ada", "auth0|5f7c", "../x", "a%2Fb"])
async def test_ingress_accepts_a_valid_user_id(user: str):
    assert (await enter(Human(content="Hi."), user=user)).owner == user


async def test_ingress_refuses_another_users_session():
    with pytest.raises(InputSchema, match="another user"):
        await enter(Human(content="Hi."), user="eve", owner="ada")


HISTORY = (Human(content="One."), Ai(content="First."))


@pytest.mark.parametrize(
    "messages",
    [
        (Ai(content="I said so."),),
        (Human(content="One."), Ai(content="I said so."), Human(content="Two.")),
        (Trim(keep=0), Human(content="One.")),
    ],
)
async def test_ingress_refuses_messages_of_other_roles(messages: tuple[Message, ...]):
    with pytest.raises(InputSchema):
        await enter(*messages)


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (Human(content="Two."),),
        (Human(content="One."), Ai(content="Forged."), Human(content="Two.")),
        (Human(content="One."), Human(content="Two."), Human(content="Three.")),
        (Human(content="One!"), Ai(content="First."), Human(content="Two.")),
        (*HISTORY, Ai(content="And more."), Human(content="Two.")),
    ],
)
async def test_ingress_refuses_a_changed_conversation(messages: tuple[Message, ...]):
    with pytest.raises(InputSchema):
        await enter(*messages, owner="ada", seen=marked(HISTORY))


@pytest.mark.parametrize("text", ["", " ", "\n\t\u2003\u00a0"])
async def test_ingress_refuses_an_empty_message(text: str):
    with pytest.raises(InputEmpty):
        await enter(Human(content=text), Human(content=text))
    with pytest.raises(InputEmpty):
        await enter(*HISTORY, owner="ada", seen=marked(HISTORY))


# planner


async def test_planner_calls_no_model_for_a_refusal():
    model = ScriptedModel(wants(call("search", query="x")))
    assert await plan_for(model, context=REFUSED) == Simple(plan="Refuse: it is not allowed.")
    assert model.messages == []


async def test_planner_calls_no_model_after_the_last_retry():
    model = ScriptedModel(wants(call("search", query="x")))
    assert isinstance(await plan_for(model, retries=2), Complex)
    made = await plan_for(model, retries=3, pad=Scratchpad(failures=(Failure(call=PlannedCall(id="a", tool="b", args={}), reason="c"),)))
    assert (type(made), made.ask, made.tokens_used, len(model.messages)) == (Simple, "", 0, 1)


async def test_planner_passes_the_context_to_the_model():
    pad = Scratchpad(
        failures=(Failure(call=PlannedCall(id="a", tool="search", args={"query": "x"}), reason="Nothing."),), hint="Other words."
    )
    model = ScriptedModel(talk(reason="Known."))
    made = await plan_for(model, retries=1, pad=pad)
    assert (made.plan, made.ask, made.next_step, made.phase) == ("Known.", "", "generate", "generate")
    told = asked(model)
    assert told["question"] == "Now?"
    assert told["conversation"] == [{"role": "human", "text": "Earlier?"}, {"role": "ai", "text": "Yes."}]
    assert told["failures"] == [{"part": "", "tool": "search", "args": {"query": "x"}, "reason": "Nothing."}]
    assert told["today"] == "2026-01-01"
    assert told["last_calls"] == [{"tool": "search", "args": {"query": "before"}}]
    assert (told["summary"], told["hint"]) == ("They like tea.", "Other words.")
    assert [tool["name"] for tool in told["tools"]] == ["search", "calculate"]
    assert made.tokens_used > 100  # it is guessed by what was said to the model and by it


async def test_planner_asks_back():
    made = await plan_for(ScriptedModel(talk(ask=" Which year? ")))
    assert (type(made), made.ask) == (Simple, "Which year?")
    made = await plan_for(ScriptedModel({**wants(call("search", query="x")), "ask": "Which year?"}))
    assert (type(made), made.ask) == (Simple, "Which year?")


async def test_planner_gives_each_call_an_id():
    plan = wants(call("search", query="x"), call("search", query="{{a.count}}", id="b"), call("calculate", id="b"))
    pad = Scratchpad(failures=(Failure(call=PlannedCall(id="call-1", tool="search", args={}), reason=""),))
    made = await plan_for(ScriptedModel(plan), retries=1, pad=pad)
    assert isinstance(made, Complex)
    assert [(one.id, one.after) for one in made.tool_calls] == [("call-2", ()), ("b", ("a",)), ("call-4", ())]
    assert (made.next_step, made.phase, made.plan) == ("tool_use", "execute", "because")


@pytest.mark.parametrize(
    "said",
    [
        wants(),
        {"next_step": "tool_use"},
        {"next_step": "end"},
        {},
        {**talk(), "route": "generator"},
        wants({"tool": "search", "args": {"query": "x"}, "route": "END"}),
        wants({"tool": "search"}),
        wants({"tool": "search", "args": "churn"}),
        wants({"tool": "search", "args": None}),
        wants({"args": {}}),
        wants({"tool": "search", "args": {}, "id": 7}),
        wants(*[call("search", query=str(number)) for number in range(MAX_CALLS + 1)]),
        '{"next_step": "gener',
        '```json\n{"next_step": "generate"}\n```',
        '{"next_step": "generate"} trailing',
        "generate",
        "",
        "[]",
        "null",
    ],
)
async def test_planner_refuses_an_invalid_plan(said: Any):
    with pytest.raises(ModelOutputInvalid):
        await plan_for(ScriptedModel(said))


# tool_router


def planned(tool: str = "search", *, id: str = "a", **args: Any) -> PlannedCall:  # noqa: A002 - the planner's own word
    return normalised([WantedCall(id=id, tool=tool, args=args)])[0]


async def test_tool_router_keeps_valid_calls():
    calls = (planned(query="churn"), planned("calculate", id="b", expression="{{a.count}} + 1"))
    selected = await tool_router(calls, (), CONTEXT, Scratchpad())
    assert (selected.tool_calls, selected.tool_outputs) == (calls, ())


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (planned("shell", command="id"), "tool_denied"),
        (planned("bq_query", sql="SELECT 1"), "tool_denied"),
        (planned("SEARCH", query="x"), "tool_denied"),
        (planned("", query="x"), "tool_denied"),
        (planned("x" * 100_000, query="x"), "tool_denied"),
        (planned(), "tool_input_invalid"),
        (planned(query=7), "tool_input_invalid"),
        (planned(query="x", limit=7), "tool_input_invalid"),
        (planned(query="tried"), "tool_failed"),
        (planned(query="{{a}}"), "tool_input_invalid"),
        (planned(query="{{nobody.rows.0}}"), "tool_input_invalid"),
        (planned(query="see {{ shell-1.x }}"), "tool_input_invalid"),
        (planned("calculate", expression=["{{nobody}}", {"x": "{{a}}"}]), "tool_input_invalid"),
    ],
)
async def test_tool_router_turns_an_invalid_call_into_an_error_result(refused: PlannedCall, code: str):
    pad = Scratchpad(failures=(Failure(call=planned(query="tried", id="before"), reason="Nothing."),))
    good = planned(query="churn", id="good")
    selected = await tool_router((refused, good), (), CONTEXT, pad)
    assert selected.tool_calls == (good,)
    [output] = selected.tool_outputs
    assert (output.id, output.tool, output.args, output.code, output.result) == (refused.id, refused.tool, refused.args, code, None)
    assert output.error is not None
    assert len(output.error) < 700


async def test_tool_router_refuses_a_cycle_and_its_dependents_only():
    calls = normalised(
        [
            WantedCall(id="a", tool="search", args={"query": "{{b}}"}),
            WantedCall(id="b", tool="search", args={"query": "{{c.x}}"}),
            WantedCall(id="c", tool="search", args={"query": "{{a.x}} {{d}}"}),
            WantedCall(id="d", tool="search", args={"query": "alone"}),
            WantedCall(id="e", tool="search", args={"query": "{{d}}"}),
            WantedCall(id="f", tool="search", args={"query": "{{c}}"}),
            WantedCall(id="g", tool="shell", args={}),
            WantedCall(id="h", tool="calculate", args={"expression": "{{g}}"}),
        ]
    )
    selected = await tool_router(calls, (), CONTEXT, Scratchpad())
    assert [one.id for one in selected.tool_calls] == ["d", "e"]
    assert [(one.id, one.code) for one in selected.tool_outputs] == [
        *((name, "tool_input_invalid") for name in "abcf"),
        ("g", "tool_denied"),
        ("h", "tool_input_invalid"),
    ]


async def test_the_same_call_twice_in_one_plan_is_made_once():
    calls = normalised([WantedCall(tool="search", args={"query": "x"}), WantedCall(tool="search", args={"query": "x"})])
    selected = await tool_router(calls, (), CONTEXT, Scratchpad())
    assert [one.id for one in selected.tool_calls] == ["call-1"]
    assert [one.code for one in selected.tool_outputs] == ["tool_failed"]


async def test_the_order_of_arguments_does_not_matter():
    two = Tool(name="two", description="", parameters={})
    calls = (planned("two", id="a", x=1, y=[{"p": 1, "q": 2}]), planned("two", id="b", y=[{"q": 2, "p": 1}], x=1))
    assert list(refusals(calls, [two], [])) == ["b"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"type": 7},
        {"$ref": "#/nowhere"},
        {"$ref": "#"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"query": {"pattern": "("}}},
        {"properties": []},
        {"required": 7},
    ],
)
def test_an_invalid_schema_of_a_server_is_left_to_the_tool(schema: dict[str, Any]):
    assert refusals([planned(query="x")], [Tool(name="search", description="", parameters=schema)], []) == {}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what fetches
def test_references_in_a_servers_schema_are_not_fetched(tmp_path: Path):
    (tmp_path / "schema.json").write_text('{"required": ["fetched"]}')
    schema: dict[str, Any] = {"$ref": (tmp_path / "schema.json").as_uri()}
    assert refusals([planned(query="x")], [Tool(name="search", description="", parameters=schema)], []) == {}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["{{a}}", "{{ b.x.0 }}", "{{c", "{{call-1}}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
ARGS = st.dictionaries(st.sampled_from(["query", "expression", "x"]), JSON, max_size=3)
IDS = st.sampled_from([None, "", " ", "a", "b", " b ", "c", "call-1", "call-2", "call-3", "é", "a.b"])
WANTED = st.lists(st.builds(WantedCall, id=IDS, tool=st.sampled_from(["search", "calculate", "shell", ""]), args=ARGS), max_size=8)


@given(WANTED, st.lists(st.sampled_from(["a", "call-1", "call-2"]), max_size=3))
def test_every_call_gets_a_unique_id_and_keeps_its_references(wanted: list[WantedCall], taken: list[str]):
    calls = normalised(wanted, taken)
    ids = [one.id for one in calls]
    assert len(set(ids)) == len(ids) == len(wanted)
    assert not set(ids) & set(taken)
    assert all(ids)
    given_names = [(one.id or "").strip() for one in wanted]
    for name in set(given_names) - {"", *taken}:  # who is referred to by a name is the first that was given it
        assert ids.index(name) == given_names.index(name)
    for one, made in zip(wanted, calls, strict=True):
        assert (made.tool, made.args) == (one.tool, one.args)
        written = json.dumps(one.args)
        assert all(name in written for name in made.after)


@given(WANTED, st.lists(st.builds(PlannedCall, id=st.just("t"), tool=st.just("search"), args=ARGS), max_size=3))
def test_any_plan_is_refused_or_can_be_ordered(wanted: list[WantedCall], tried: list[PlannedCall]):
    calls = normalised(wanted)
    refused = refusals(calls, [SEARCH, SUM], tried)
    assert all(isinstance(error, ToolError) for error in refused.values())
    kept = [one for one in calls if one.id not in refused]
    assert all(one.tool in {"search", "calculate"} for one in kept)
    done: set[str] = set()
    for _ in kept:
        done |= {one.id for one in kept if done.issuperset(one.after)}
    assert done == {one.id for one in kept}


@given(ARGS, st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
def test_filling_in_results_raises_only_tool_input_invalid(args: dict[str, Any], results: dict[str, Any]):
    outputs = {name: ToolOutput(id=name, tool="t", args={}, result=result) for name, result in results.items()}
    try:
        made = filled(args, outputs)
    except ToolInputInvalid:
        return
    assert made.keys() == args.keys()


def test_references_are_replaced_alone_and_inside_a_text():
    outputs = {"a": ToolOutput(id="a", tool="t", args={}, result={"rows": [[7, "x"]], "note": "n"})}
    args: dict[str, Any] = {"whole": "{{a.rows.0}}", "text": "{{ a.rows.0.0 }} + {{a.note}}", "in": [{"k": " {{a.rows.0.1}} "}], "n": 1}
    assert filled(args, outputs) == {"whole": [7, "x"], "text": "7 + n", "in": [{"k": "x"}], "n": 1}


@pytest.mark.parametrize(
    "reference", ["a.rows.9", "a.rows.-1", "a.nothing", "a.note.x", "a.rows.0.0.0", "b", f"a.rows.{'9' * 5000}", "a.rows.x"]
)
def test_a_reference_to_a_missing_value_is_invalid(reference: str):
    outputs = {"a": ToolOutput(id="a", tool="t", args={}, result={"rows": [[7]], "note": "n"})}
    with pytest.raises(ToolInputInvalid) as raised:
        filled({"x": f"{{{{{reference}}}}}"}, outputs)
    assert len(raised.value.message) < 500


def test_the_size_of_filled_arguments_is_limited():
    outputs = {"a": ToolOutput(id="a", tool="t", args={}, result="x" * 200_000)}
    assert len(str(filled({"x": "{{a}}{{a}}"}, outputs))) > 400_000
    huge: tuple[dict[str, Any], ...] = ({"x": "{{a}}" * 5000}, {"x": ["{{a}}"] * 5000})
    for many in huge:
        with pytest.raises(ToolInputInvalid, match="too large"):
            filled(many, outputs)


# tool_executor


async def test_tool_executor_runs_calls_concurrently_and_keeps_their_order():
    gateway = Gateway(wanted=3)
    calls = tuple(planned(id=name, query=name) for name in "abc")
    made = await tool_executor(calls, (FAILED,), tools=gateway)
    assert [one.id for one in made.tool_outputs] == ["call-3", "a", "b", "c"]
    assert made.phase == "verify"
    assert [request.args for request in gateway.asked] == [{"query": "a"}, {"query": "b"}, {"query": "c"}]


async def test_tool_executor_waits_for_dependencies_in_any_order():
    gateway = Gateway()
    calls = (
        planned("calculate", id="b", expression="{{a.rows.0.0}} * {{c.rows.0.0}}"),
        planned(id="a", query="first"),
        planned(id="c", query="{{a.rows.0.1}}"),
    )
    made = await tool_executor(calls, (), tools=gateway)
    assert [one.id for one in made.tool_outputs] == ["b", "a", "c"]
    assert [request.args for request in gateway.asked] == [{"query": "first"}, {"query": "seven"}, {"expression": "7 * 7"}]
    assert made.tool_outputs[0].args == {"expression": "{{a.rows.0.0}} * {{c.rows.0.0}}"}


@pytest.mark.parametrize("said", [ToolDenied("No."), ToolResult(tool="search", error="Broken.", code="tool_failed")])
async def test_tool_executor_skips_only_dependents_of_a_failed_call(said: ToolResult | Exception):
    gateway = Gateway(says={"search": said})
    calls = (
        planned(id="a", query="x"),
        planned("calculate", id="b", expression="{{a}}"),
        planned("calculate", id="c", expression="{{b}}"),
        planned("calculate", id="d", expression="1"),
    )
    made = await tool_executor(calls, (), tools=gateway)
    codes = [one.code for one in made.tool_outputs]
    assert codes == ["tool_denied" if isinstance(said, ToolDenied) else "tool_failed", "tool_failed", "tool_failed", None]
    assert [request.tool for request in gateway.asked] == ["search", "calculate"]
    assert "'a'" in str(made.tool_outputs[1].error)


async def test_tool_executor_reports_a_reference_to_a_missing_value():
    made = await tool_executor((planned(id="a", query="x"), planned(id="b", query="{{a.rows.5}}")), (), tools=Gateway())
    assert [one.code for one in made.tool_outputs] == [None, "tool_input_invalid"]


async def test_tool_executor_accepts_no_calls():
    assert (await tool_executor((), (FAILED,), tools=Gateway())).tool_outputs == (FAILED,)


async def test_tool_executor_cancels_every_call_when_the_budget_is_exceeded():
    gateway = Gateway(wanted=2, says={"search": BudgetExceeded("Over.")})
    calls = (planned(id="a", query="x"), planned(id="b", query="{{a}}"), planned("calculate", id="c", expression="1"))
    with pytest.raises(BudgetExceeded):
        await tool_executor(calls, (), tools=gateway)


# verifier


RESULTS: list[tuple[Any, bool]] = [
    (None, True),
    ("", True),
    (" \n", True),
    ([], True),
    ({}, True),
    ([None, "", []], True),
    ({"rows": []}, True),
    ({"rows": [[None]]}, True),
    ({"rows": [[None, ""], []], "columns": ["a", "b"]}, True),
    ({"documents": [], "count": 0}, True),
    ({"result": []}, True),
    ({"a": None, "b": ""}, True),
    (0, False),
    (0.0, False),
    (False, False),
    ("0", False),
    ([0], False),
    ({"rows": [[0]]}, False),
    ({"rows": [["Germany", None]]}, False),
    ({"rows": "none"}, False),
    ({"count": 3}, False),
    ({"value": 0}, False),
    ({"a": None, "b": {"c": None}}, False),
    ("x", False),
    (["x"], False),
]


@pytest.mark.parametrize(("result", "empty"), RESULTS)
async def test_verifier_distinguishes_an_empty_result_from_zero(result: Any, empty: bool):  # noqa: FBT001 - of the table
    output = ToolOutput(id="a", tool="t", args={}, result=result)
    assert is_useful(output) is not empty
    told = Told()
    made = await verifier((output,), (), Scratchpad(), 0, CONTEXT, progress=told)
    assert type(made) is (Lacking if empty else Good)
    assert len(told.events) == int(empty)


async def test_verifier_accepts_one_useful_output_for_a_part():
    told = Told()
    old = Scratchpad(failures=(Failure(call=planned(query="old"), reason="Nothing."),), hint="Other words.")
    made = await verifier((FOUND, EMPTY, FAILED), (), old, 1, CONTEXT, progress=told)
    assert isinstance(made, Good)
    assert [(one.call.id, one.reason) for one in made.scratchpad.failures] == [
        ("call-2", "It found nothing."),
        ("call-3", "It is out of order."),
    ]
    assert (made.scratchpad.hint, told.events) == ("", [])


@pytest.mark.parametrize(
    ("outputs", "why", "word"), [((EMPTY, FAILED), "empty", "Nothing was found"), ((FAILED,), "error", "Calls failed")]
)
async def test_verifier_requests_another_plan_with_a_hint(outputs: tuple[ToolOutput, ...], why: str, word: str):
    told = Told()
    old = Scratchpad(failures=(Failure(call=planned(query="old"), reason="Nothing."),))
    made = await verifier(outputs, (), old, 1, CONTEXT, progress=told)
    assert isinstance(made, Lacking)
    assert (made.retry_count, made.phase) == (2, "plan")
    assert made.scratchpad.hint.startswith(word)
    assert len(made.scratchpad.failures) == 1 + len(outputs)
    assert told.events == [("planning_retry", {"status": "planning_retry", "retry": 2, "reason": why})]


async def test_verifier_emits_no_retry_after_the_last_one():
    told = Told()
    made = await verifier((EMPTY,), (), Scratchpad(), 2, CONTEXT, progress=told)
    assert isinstance(made, Lacking)
    assert (made.retry_count, told.events) == (3, [])


# the parts of a question

PARTS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=8)


@given(PARTS, st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
async def test_every_part_of_a_question_needs_a_result(found: list[tuple[str, bool]], declared: list[str]):
    outputs = tuple(
        ToolOutput(id=f"{at}", tool="search", args={"query": str(at)}, result={"count": int(good), "rows": [1] if good else []}, part=part)
        for at, (part, good) in enumerate(found)
    )
    answered = {part for part, good in found if good}
    made = await verifier(outputs, tuple(declared), Scratchpad(), 0, CONTEXT, progress=Told())
    assert isinstance(made, Good) == ({*declared, *(part for part, _ in found)} <= answered)
    if isinstance(made, Lacking):
        assert not any(f": {part}." in made.scratchpad.hint for part in answered)


async def test_results_are_kept_while_another_part_is_planned_again():
    plan = {**wants(search("churn", part="churn"), search("zzqx", part="tea")), "parts": ["churn", "tea"]}
    first = await plan_for(ScriptedModel(plan))
    assert first.parts == ("churn", "tea")
    good = ToolOutput(id="call-1", tool="search", args={"query": "churn"}, result={"count": 1}, part="churn")
    empty = ToolOutput(id="call-2", tool="search", args={"query": "zzqx"}, result={"count": 0}, part="tea")
    lacking = await verifier((good, empty), first.parts, Scratchpad(), 0, CONTEXT, progress=Told())
    assert isinstance(lacking, Lacking)
    assert "tea" in lacking.scratchpad.hint
    assert "churn" not in lacking.scratchpad.hint
    model = ScriptedModel({**wants(search("green tea", part="tea"), search("churn", part="churn")), "parts": ["tea"]})
    again = await plan_for(model, retries=1, pad=lacking.scratchpad, outputs=(good, empty), parts=first.parts)
    assert asked(model)["answered"] == [{"id": "call-1", "part": "churn"}]
    selected = await tool_router(again.tool_calls, (good, empty), CONTEXT, lacking.scratchpad)
    assert [one.part for one in selected.tool_calls] == ["tea"]  # what was found is not looked for once more
    assert selected.tool_outputs[0] == good
    executed = await tool_executor(selected.tool_calls, (good,), tools=Gateway())
    ended = await verifier(executed.tool_outputs, again.parts, lacking.scratchpad, 1, CONTEXT, progress=Told())
    assert isinstance(ended, Good)
    assert ended.scratchpad.failures == ()


async def test_a_call_can_reference_a_result_of_an_earlier_plan():
    calls = (PlannedCall(id="b", tool="calculate", args={"expression": "{{a.count}} + 1"}, after=("a",)),)
    kept = ToolOutput(id="a", tool="search", args={"query": "x"}, result={"count": 1})
    selected = await tool_router(calls, (kept,), CONTEXT, Scratchpad())
    gateway = Gateway()
    executed = await tool_executor(selected.tool_calls, selected.tool_outputs, tools=gateway)
    assert gateway.asked[0].args == {"expression": "1 + 1"}
    assert [one.id for one in executed.tool_outputs] == ["a", "b"]


async def test_a_part_without_a_call_is_planned_again():
    made = await plan_for(ScriptedModel({**wants(search("churn", part="churn")), "parts": ["churn", "tea"]}))
    found = ToolOutput(id="call-1", tool="search", args={"query": "churn"}, result={"count": 1}, part="churn")
    assert isinstance(await verifier((found,), made.parts, Scratchpad(), 0, CONTEXT, progress=Told()), Lacking)


# generator


async def test_generator_calls_no_model_for_a_refusal_or_a_question_back():
    model = ScriptedModel("Gladly.")
    refused = await answer(model, context=REFUSED)
    assert refused.messages == (Ai(content="I cannot help with this: it is not allowed."),)
    put = await answer(model, ask="Which year?")
    assert (put.messages, put.used, put.tokens_used) == ((Ai(content="Which year?"),), (), 0)
    assert model.messages == []


async def test_generator_answers_from_useful_outputs_and_lists_them():
    model = ScriptedModel(["Churn ", "is [call-1]", " and [nobody] [call-2]."])
    made = await answer(model, FOUND, EMPTY, FAILED)
    assert made.messages == (Ai(content="Churn is [call-1] and [nobody] [call-2]."),)
    assert made.used == ("call-1",)
    told = asked(model)
    assert [one["id"] for one in told["outputs"]] == ["call-1"]
    assert told["conversation"] == [{"role": "human", "text": "Earlier?"}, {"role": "ai", "text": "Yes."}]
    assert (told["today"], told["notes"]) == ("2026-01-01", ["Only 2025."])
    assert [one.id for one in made.sources] == ["call-1"]
    assert (await answer(ScriptedModel("Churn."))).sources == (LAST,)  # an answer without data leaves them as they were
    assert (await answer(ScriptedModel("Churn."), FOUND)).used == ("call-1",)
    assert (await answer(ScriptedModel("Churn."))).used == ()


async def test_generator_always_lists_what_was_not_found():
    failures = (
        Failure(call=planned(query="zzqx"), reason="It found nothing."),
        Failure(call=planned(query="zzqx", id="b"), reason="It found nothing."),
        Failure(call=planned("calculate", expression=["1", 2]), reason="r" * 5000),
    )
    model = ScriptedModel("All is well.")
    made = await answer(model, FOUND, pad=Scratchpad(failures=failures))
    text = made.messages[0].content
    assert text.startswith('All is well.\n\nNot found:\n- search(zzqx): It found nothing.\n- calculate(["1", 2]): rrr')
    assert text.count("zzqx") == 1
    assert len(text) < 600
    assert len(asked(model)["failures"]) == 3


@pytest.mark.parametrize("said", [[], [""], [" ", "\n"], [Chunk(usage=Usage(input_tokens=1))]])
async def test_generator_refuses_an_empty_answer(said: Any):
    with pytest.raises(ModelOutputInvalid):
        await answer(ScriptedModel(said))


async def test_generator_counts_reported_or_estimated_tokens():
    told = await answer(ScriptedModel(["Yes", Chunk(text=".", usage=Usage(input_tokens=40, output_tokens=2))]))
    assert told.tokens_used == 42
    guessed = await answer(ScriptedModel("Yes."))
    assert guessed.tokens_used > 100


async def test_generator_limits_the_size_of_an_output_in_the_prompt():
    rows: list[Any] = [["x" * 1000]] * 300
    large = ToolOutput(id="a", tool="t", args={}, result={"rows": rows})
    model = ScriptedModel("Much [a].")
    await answer(model, *[large] * MAX_CALLS)
    [first, *_] = asked(model)["outputs"]
    assert len(first["result"]) < 6_100
    assert first["result"].endswith("[cut: 301,810 characters]")


# summarizer


def history(turns: int) -> tuple[Message, ...]:
    return tuple(one for turn in range(turns) for one in (Human(content=f"q{turn}"), Ai(content=f"a{turn}")))


async def test_summarizer_keeps_a_short_history():
    model = ScriptedModel({"summary": "s"})
    assert await summarizer(history(2), "", CONTEXT, model=model) == Untrimmed(seen=marked(history(2)))
    assert model.messages == []


async def test_summarizer_moves_the_oldest_messages_into_the_summary():
    model = ScriptedModel({"summary": "Both."})
    made = await summarizer(history(3), "Before.", CONTEXT, model=model)
    assert isinstance(made, Summarised)
    assert (made.summary, made.messages, made.seen) == ("Both.", (Trim(keep=2),), marked(history(3)[-2:]))
    assert made.tokens_used > 0
    assert asked(model) == {
        "summary": "Before.",
        "conversation": [{"role": role, "text": text} for role, text in (("human", "q0"), ("ai", "a0"), ("human", "q1"), ("ai", "a1"))],
    }
    kept = appended(history(3), made.messages)
    assert came_after(kept, made.seen) == ()


@pytest.mark.parametrize("window", [-3, 0, 1, 2, 3])
async def test_summarizer_keeps_the_answer_with_any_window(window: int):
    made = await summarizer(history(2), "", UserContext(window=window), model=ScriptedModel({"summary": "s"}))
    assert isinstance(made, Summarised)
    assert appended(history(2), made.messages)[-1] == Ai(content="a1")


@pytest.mark.parametrize(
    "said",
    [
        ModelUnavailable("Down."),
        BudgetExceeded("Over."),
        {"summary": ""},
        {"summary": "x" * 4001},
        {"summary": "s", "messages": []},
        {},
        "half",
        "",
    ],
)
async def test_summarizer_keeps_all_messages_if_it_fails(said: Any):
    assert await summarizer(history(9), "Before.", CONTEXT, model=ScriptedModel(said)) == Untrimmed(seen=marked(history(9)))


@settings(max_examples=50)
@given(st.integers(2, 8), st.integers(1, 20), st.integers(1, 3))
async def test_the_history_stays_within_the_window(window: int, turns: int, questions: int):
    messages: tuple[Message, ...] = ()
    seen = summary = ""
    for turn in range(turns):
        said = tuple(Human(content=f"q{turn}.{number}") for number in range(questions))
        messages = appended(messages, said)
        assert came_after(messages, seen) == said
        messages = appended(messages, (Ai(content=f"a{turn}"),))
        ended = await summarizer(messages, summary, UserContext(window=window), model=ScriptedModel({"summary": f"up to {turn}"}))
        seen = ended.seen
        if isinstance(ended, Summarised):
            messages, summary = appended(messages, ended.messages), ended.summary
        assert len(messages) <= window
        assert messages[-1] == Ai(content=f"a{turn}")
