"""Every agent on servers that speak OpenAI's protocol, asked by the real client: strict ones, lenient ones, and odd ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings, TurnResult
from interlock.engine import EngineName
from interlock.runtime.events import Event
from tests.support.desk import Store, new_session
from tests.support.openai_server import KINDS, Answer, Call, Kind, OpenAIServer
from tests.support.puntini import final, many, simple

WHOLE = [kind for kind in KINDS if kind != "truncating"]

PLAN = {"next_step": "tool_use", "tool_calls": [{"tool": "calculate", "args": {"expression": "6 * 7"}}], "reason": "It is a sum."}


async def take(agent: str, text: str, engine: EngineName, folder: Path, server: OpenAIServer, **settings: Any) -> TurnResult:
    made = Settings(engine=engine, data_dir=folder, **server.settings(**settings))
    async with Interlock(made) as app:
        return await app.run(agent, text, session="s")


def check(server: OpenAIServer) -> None:
    """See that the server took every request, and that every structured one was held to its schema."""
    assert server.refused == []
    formats = [request["response_format"] for request in server.requests if "response_format" in request]
    assert all(told["json_schema"]["strict"] is True for told in formats)


@pytest.mark.parametrize("kind", WHOLE)
async def test_sam_answers(engine: EngineName, kind: Kind, tmp_path: Path) -> None:
    with OpenAIServer(kind, {"text": ["Forty-two."]}) as server:
        result = await take("sam", "What is six times seven?", engine, tmp_path, server)
    assert (result.status, result.output) == ("success", "Forty-two.")
    assert len(server.requests) == 1
    check(server)


@pytest.mark.parametrize("kind", WHOLE)
async def test_analyst_plans_calculates_and_answers(engine: EngineName, kind: Kind, tmp_path: Path) -> None:
    with OpenAIServer(kind, {"PlannerDecision": [PLAN], "text": ["It is 42 [call-1]."]}) as server:
        result = await take("analyst", "What is 6 * 7?", engine, tmp_path, server)
    assert result.status == "success", result.error
    assert "It is 42" in result.output
    assert [(one.tool, one.args) for one in result.state["tool_outputs"]] == [("calculate", {"expression": "6 * 7"})]
    check(server)


@pytest.mark.parametrize("kind", WHOLE)
async def test_puntini_changes_the_graph(engine: EngineName, kind: Kind, tmp_path: Path) -> None:
    first = simple("add_node", label="Task", key="Design", properties={"priority": 3, "tags": ["a", "b"], "owner": None})
    with OpenAIServer(kind, {"ParsedGoal": [first]}) as server:
        result = await take("puntini", "Create a task Design with priority 3", engine, tmp_path, server)
    assert result.status == "success", result.error
    assert [one.call.tool_args for one in result.state["done"]] == [first["tool"]["tool_args"]]
    check(server)


@pytest.mark.parametrize("kind", WHOLE)
async def test_puntini_plans_steps(engine: EngineName, kind: Kind, tmp_path: Path) -> None:
    plan = final("add_node", label="Task", key="Design", properties={})
    with OpenAIServer(kind, {"ParsedGoal": [many("Create it", "Look")], "StepPlan": [plan]}) as server:
        result = await take("puntini", "Create a task Design and look at it", engine, tmp_path, server, human="nobody")
    assert result.status == "success", result.error
    assert "Design" in [one.call.tool_args.get("key") for one in result.state["done"]]
    check(server)


@pytest.mark.parametrize("kind", WHOLE)
async def test_desk_plans_runs_a_tool_and_answers(engine: EngineName, kind: Kind, store: Store) -> None:
    answers: dict[str, list[Answer]] = {
        "PlannerResponse": [{"goal": {"goal_type": "sales.price", "slots_patch": {"quantity": 2, "sizes": [1, 2]}, "missing": []}}],
        "tools": [(Call("math_evaluate", {"expression": "6 * 7"}),)],
        "SpecialistResponse": [{"message": "That makes 42.", "state_updates": {"mark_done": True, "slots_patch": {"total": 42}}}],
    }
    with OpenAIServer(kind, answers) as server:
        async with Interlock(store.settings(engine, **server.settings())) as app:
            session = new_session()
            result = await app.run("desk", "What do six desks at seven cost?", session=session)
    assert result.status == "success", result.error
    assert "42" in result.output
    goals: Mapping[str, Any] = store.document(session)["goals"]
    assert [one["slots"] for one in goals.values()] == [{"quantity": 2, "sizes": [1, 2], "total": 42}]
    check(server)


@pytest.mark.parametrize("kind", WHOLE)
async def test_gateway_answers_from_its_files(engine: EngineName, kind: Kind, tmp_path: Path) -> None:
    answers: dict[str, list[Answer]] = {"text": ["respond_admin"], "tools": [(Call("ls", {"path": "/"}),), "There are some files."]}
    with OpenAIServer(kind, answers) as server:
        made = Settings(engine=engine, data_dir=tmp_path, **server.settings())
        async with Interlock(made) as app:
            result = await app.run("gateway", "What is in my folder?", session="s", role="admin")
    assert (result.status, result.output) == ("success", "There are some files.")
    assert len(server.requests) == 3
    check(server)


CUT_OFF: dict[str, tuple[str, dict[str, list[Answer]]]] = {
    "sam": ("What is six times seven?", {"text": ["Forty-two, as everybody knows."]}),
    "analyst": ("What is 6 * 7?", {"PlannerDecision": [PLAN], "text": ["It is 42, as everybody knows."]}),
    "desk": ("What do six desks cost?", {"PlannerResponse": [{"goal": {"goal_type": "sales.price"}}]}),
    "gateway": ("What is in my folder?", {"text": ["respond_admin"], "tools": ["There are some files."]}),
    "puntini": (
        "Create a task Design",
        {"ParsedGoal": [simple("add_node", label="Task", key="A")], "StepPlan": [final("add_node", key="A")]},
    ),
}


@pytest.mark.parametrize("agent", CUT_OFF)
async def test_an_answer_that_is_cut_off_is_no_answer_and_names_the_setting(
    engine: EngineName, agent: str, tmp_path: Path, store: Store
) -> None:
    text, answers = CUT_OFF[agent]
    events: list[Event] = []
    with OpenAIServer("truncating", {name: list(given) for name, given in answers.items()}) as server:
        more: dict[str, Any] = {"human": "nobody", "model_max_tokens": 8, **server.settings()}
        made = store.settings(engine, **more) if agent == "desk" else Settings(engine=engine, data_dir=tmp_path, **more)
        async with Interlock(made) as app:
            role = "admin" if agent == "gateway" else None
            result = await app.run(agent, text, session=new_session(), role=role, on_event=events.append)
    said = f"{result.error.message if result.error else ''} {result.output}"
    assert "INTERLOCK_MODEL_MAX_TOKENS" in said
    assert "cut off" in said
    if agent != "puntini":  # which reports what went wrong as its answer
        assert result.status == "error"


# An answer of the wrong shape is asked for once more


AGAIN: dict[str, tuple[str, dict[str, list[Answer]], int]] = {
    "analyst": ("What is 6 * 7?", {"PlannerDecision": [{"next": "tool_use"}, PLAN], "text": ["It is 42."]}, 3),
    "puntini": (
        "Create a task A",
        {"ParsedGoal": ["I would create a task.", simple("add_node", label="Task", key="A", properties={})], "StepPlan": ["No."]},
        2,
    ),
    "desk": (
        "What do six desks cost?",
        {
            "PlannerResponse": [{"goal": {"goal_type": "hr.question"}}, {"goal": {"goal_type": "sales.price"}}],
            "tools": [(Call("math_evaluate", {"expression": "6 * 7"}),)],
            "SpecialistResponse": ["Sorry.", {"message": "That makes 42."}],
        },
        5,
    ),
}


async def taken_again(
    agent: str, engine: EngineName, folder: Path, store: Store, **settings: Any
) -> tuple[TurnResult, list[Event], OpenAIServer]:
    text, answers, _ = AGAIN[agent]
    events: list[Event] = []
    with OpenAIServer("lenient", {name: list(given) for name, given in answers.items()}) as server:
        more: dict[str, Any] = {"human": "nobody", **server.settings(), **settings}
        made = store.settings(engine, **more) if agent == "desk" else Settings(engine=engine, data_dir=folder, **more)
        async with Interlock(made) as app:
            return await app.run(agent, text, session=new_session(), on_event=events.append), events, server


@pytest.mark.parametrize("agent", AGAIN)
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_with_the_reason(
    engine: EngineName, agent: str, tmp_path: Path, store: Store
) -> None:
    result, events, server = await taken_again(agent, engine, tmp_path, store)
    assert result.status == "success", result.error
    assert len(server.requests) == AGAIN[agent][2]
    assert [event["event"] for event in events].count("on_chat_model_start") == AGAIN[agent][2]
    corrected = server.requests[1]["messages"]
    assert corrected[:-1] == server.requests[0]["messages"]
    assert corrected[-1]["role"] == "user"
    assert corrected[-1]["content"].startswith("Your answer could not be used. The model's answer is not a '")


@pytest.mark.parametrize("agent", AGAIN)
async def test_asking_once_more_counts(engine: EngineName, agent: str, tmp_path: Path, store: Store) -> None:
    result, _, server = await taken_again(agent, engine, tmp_path, store, max_model_calls=1)
    assert len(server.requests) == 1
    assert "max_model_calls" in f"{result.error.message if result.error else ''} {result.output}"


async def test_sam_never_asks_again(engine: EngineName, tmp_path: Path) -> None:
    with OpenAIServer("lenient", {"text": ["", "Forty-two."]}) as server:
        result = await take("sam", "What is six times seven?", engine, tmp_path, server)
    assert result.error is not None
    assert result.error.code == "invalid_output"
    assert len(server.requests) == 1


# An answer that cannot be used was paid for


PER_ANSWER = (11, 7)
"""The input and output tokens that the server reports for every answer."""


@pytest.mark.parametrize("agent", AGAIN)
async def test_the_tokens_of_a_rejected_answer_are_counted(engine: EngineName, agent: str, tmp_path: Path, store: Store) -> None:
    result, _, server = await taken_again(agent, engine, tmp_path, store)
    answers = len(server.requests)
    usage = (result.usage.model_calls, result.usage.input_tokens, result.usage.output_tokens)
    assert usage == (answers, answers * PER_ANSWER[0], answers * PER_ANSWER[1])
    if agent == "analyst":
        assert result.state["tokens_used"] == answers * sum(PER_ANSWER)


@pytest.mark.parametrize("agent", ["analyst", "puntini"])
async def test_a_rejected_answer_is_charged_to_the_token_budget(engine: EngineName, agent: str, tmp_path: Path, store: Store) -> None:
    result, _, server = await taken_again(agent, engine, tmp_path, store, max_tokens=sum(PER_ANSWER) - 1)
    assert len(server.requests) == 1, "the budget is used up before anything is asked again"
    assert "max_tokens" in f"{result.error.message if result.error else ''} {result.output}"


async def test_a_rejected_answer_is_charged_again_when_the_turn_is_replayed(engine: EngineName, tmp_path: Path) -> None:
    with OpenAIServer("lenient", {name: list(given) for name, given in AGAIN["analyst"][1].items()}) as server:
        made = Settings(engine=engine, data_dir=tmp_path, **server.settings())
        async with Interlock(made) as app:
            first = await app.run("analyst", AGAIN["analyst"][0], session="s", record=tmp_path / "turn.jsonl")
    assert first.usage.model_calls == AGAIN["analyst"][2]
    async with Interlock(Settings(engine=engine, data_dir=tmp_path)) as app:
        again = await app.replay(tmp_path / "turn.jsonl")
    assert (again.result.usage, again.differences) == (first.usage, ())


UNUSABLE: dict[str, tuple[Kind, Answer]] = {"empty": ("lenient", ""), "cut off": ("truncating", "Forty-two, as everybody knows.")}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", UNUSABLE)
async def test_a_text_that_cannot_be_used_is_counted(engine: EngineName, case: str, tmp_path: Path, *, stream: bool) -> None:
    kind, answer = UNUSABLE[case]
    with OpenAIServer(kind, {"text": [answer]}) as server:
        made = Settings(engine=engine, data_dir=tmp_path, **server.settings())
        async with Interlock(made) as app:
            events: list[Event] = []
            listener = events.append if stream else None
            result = await app.run("sam", "What is six times seven?", session="s", on_event=listener)
    assert result.status == "error"
    assert (result.usage.model_calls, result.usage.input_tokens, result.usage.output_tokens) == (1, *PER_ANSWER)


@pytest.mark.parametrize("agent", ["analyst", "puntini"])
async def test_a_decision_that_is_cut_off_is_counted(engine: EngineName, agent: str, tmp_path: Path) -> None:
    text, answers = CUT_OFF[agent]
    with OpenAIServer("truncating", {name: list(given) for name, given in answers.items()}) as server:
        made = Settings(engine=engine, data_dir=tmp_path, human="nobody", **server.settings(model_max_tokens=8))
        async with Interlock(made) as app:
            result = await app.run(agent, text, session=new_session())
    asked = len(server.requests)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (asked * PER_ANSWER[0], asked * PER_ANSWER[1])
