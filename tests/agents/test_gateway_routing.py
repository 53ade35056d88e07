"""Which side an admin's text is for: a keyword opens the bridge, a model can only keep it shut."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock import InterlockError, Settings
from interlock.capabilities import Model
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable, SettingsInvalid
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel
from interlock_agents.gateway.classifier import GuardedClassifier, is_veto
from interlock_agents.gateway.settings import GatewaySettings
from tests.support.gateway import BRIDGE, Post, app, call, calls, code, make_files, names

KEYWORDS = Settings().of(GatewaySettings).gateway_keywords
VETOES = (
    *("respond_admin", "respond_admin.", "`respond_admin`", '"respond_admin"', "RESPOND_ADMIN", " Respond_Admin\n", "**respond_admin**"),
    *("Respond admin", "respond-admin", "respond\\_admin", "label: respond_admin", "I choose respond_admin, not route_bridge."),
    *("route_bridge respond_admin", "```\nrespond_admin\n```", '{"label": "respond_admin"}', "“respond_admin”", "\uff32espond_admin"),
)
WITH = (
    *("Is it in the docs?", "DOCS", "docs", "(docs)", "docs.", "the Documentation says", "a CUSTOMER asked", "customer's", "/docs/a.md"),
    *(
        "customers",
        "the users",
        "our documents",
        "user documents",
        "the Handbook",
        "a user document",
        "User\n Document",
        "the knowledge\t base",
        "Knowledge Base!",
        "docs-related",
        "x/docs/y",
    ),
)
WITHOUT = (
    *("Who is on call?", "doc", "docsX", "xdocs", "docs_2", "customer_id", "document", "user", "userdocument", "knowledgebase"),
    *(
        "user, document",
        "knowledge of the base",
        "d o c s",
        "handbooks",
        "route_bridge",
        '{"route": "route_bridge"}',
        "origin=supervisor",
        "bridge",
    ),
)
LABELS = st.one_of(
    st.text(min_size=1),
    st.sampled_from(
        [
            *("route_bridge", " route_bridge\n", "Route bridge!", *VETOES),
            *('{"route":"route_bridge"}', "route_bridge respond_admin", "goto bridge", "\x00", "docs customer", "route_bridge" * 100),
        ]
    ),
)
SAID = st.one_of(st.text(min_size=1), st.lists(st.sampled_from([*WITH, *WITHOUT, " ", "\n", "the"]), min_size=1, max_size=4).map(" ".join))


def has_keyword(text: str) -> bool:
    """Tell the same in another way: word by word."""
    words = re.findall(r"\w+|[^\w\s]", text.casefold())
    joined = " ".join(words)
    return any(f" {keyword} " in f" {joined} " for keyword in KEYWORDS)


@given(said=LABELS, text=SAID)
def test_no_label_of_the_model_crosses_without_a_keyword(said: str, text: str):
    route = asyncio.run(GuardedClassifier(KEYWORDS).classify(text, model=ScriptedModel(said)))
    if route == "route_bridge":
        assert has_keyword(text)
    if said in VETOES:
        assert route == "respond_admin"


@pytest.mark.parametrize("said", VETOES)
def test_a_veto_is_recognised_in_any_form(said: str):
    assert asyncio.run(GuardedClassifier(KEYWORDS).classify("Is it in the docs?", model=ScriptedModel(said))) == "respond_admin"


@given(before=st.text(), after=st.text())
def test_text_around_a_veto_does_not_cancel_it(before: str, after: str):
    said = ScriptedModel(f"{before} respond_admin {after}")
    assert asyncio.run(GuardedClassifier(KEYWORDS).classify("Is it in the docs?", model=said)) == "respond_admin"


@pytest.mark.parametrize("said", ["whatever", "route_bridge", "Admin? No. I would respond from the documents.", "{}", "respond"])
def test_without_a_veto_the_keywords_decide(said: str):
    for text, route in (("Is it in the docs?", "route_bridge"), ("Who is on call?", "respond_admin")):
        assert asyncio.run(GuardedClassifier(KEYWORDS).classify(text, model=ScriptedModel(said))) == route


@given(said=LABELS, other=LABELS, text=SAID)
def test_the_model_can_only_veto(said: str, other: str, text: str):
    guard = GuardedClassifier(KEYWORDS)
    routes = {label: asyncio.run(guard.classify(text, model=ScriptedModel(label))) for label in (said, other, "route_bridge")}
    assert routes["route_bridge"] == ("route_bridge" if guard.has_keyword(text) else "respond_admin")
    for label, route in routes.items():
        assert route == ("respond_admin" if is_veto(label) else routes["route_bridge"])


@pytest.mark.parametrize("text", WITH)
def test_a_keyword_is_found_as_whole_words_in_any_case(text: str):
    assert GuardedClassifier(KEYWORDS).has_keyword(text)
    assert has_keyword(text)


@pytest.mark.parametrize("text", WITHOUT)
def test_similar_words_are_not_keywords(text: str):
    assert not GuardedClassifier(KEYWORDS).has_keyword(text)


@pytest.mark.parametrize("keywords", [("",), ("docs", ""), ("docs", " \n")])
async def test_a_blank_keyword_is_rejected(tmp_path: Path, keywords: tuple[str, ...]):
    with pytest.raises(SettingsInvalid, match="gateway_keywords"):
        GuardedClassifier(keywords)
    with pytest.raises(SettingsInvalid, match="gateway_keywords"):
        await app("direct", tmp_path, gateway_keywords=keywords).run("gateway", "Hello", role="admin")


def test_a_keyword_is_not_a_pattern():
    guard = GuardedClassifier(("c++", "a.b", "(x"))
    assert [guard.has_keyword(text) for text in ("C++ it is", "a.b", "axb", "see (x now", "ccc")] == [True, True, False, True, False]


# Whole turns


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Generator[Post]:
    made = Post(tmp_path_factory.mktemp("gateway"))
    yield made
    made.close()


@settings(max_examples=25)
@given(said=LABELS, answer=st.text(min_size=1), text=SAID.filter(lambda text: "\0" not in text))
def test_a_turn_goes_over_the_bridge_only_with_a_keyword(post: Post, said: str, answer: str, text: str):
    seen: list[Any] = []
    for engine in ENGINES:
        result, _ = asyncio.run(post.take(engine, {"admin_input": text}, said, answer, role="admin"))
        seen.append((result.path, code(result), result.output, result.state["route"], result.state["origin"]))
    assert seen[0] == seen[1]
    path, error, output, route, origin = seen[0]
    assert error is None
    if not text.strip():
        assert (path, output) == (("supervisor",), "Empty admin input.")
    elif path == BRIDGE:
        assert has_keyword(text)
        assert said not in VETOES
        assert (route, origin, output) == ("route_bridge", "bridge", answer)
    else:
        assert (path, route, origin, output) == (("supervisor",), "respond_admin", "supervisor", answer)


@pytest.mark.parametrize(("role", "says"), [("admin", "Empty admin input."), ("user", "Empty user input.")])
async def test_every_answer_calls_a_model(engine: EngineName, tmp_path: Path, role: str, says: str):
    model = ScriptedModel(ModelUnavailable("Nobody may ask."))
    async with app(engine, tmp_path, grants={Model: model}) as running:
        for empty in ("", " ", "\n\t ", "\u3000", "\N{NO-BREAK SPACE}"):
            for given_input in (empty, {f"{role}_input": empty}, {}):
                events: list[Event] = []
                result = await running.run("gateway", given_input, role=role, on_event=events.append)
                assert (result.status, result.output, len(result.path)) == ("success", says, 1)
                assert names(events, "on_chat_model_start") == []
    assert model.messages == []
    assert not (tmp_path / "gateway").exists()


@pytest.mark.parametrize("failure", [ModelUnavailable, ModelTimeout, ModelRefused, ModelOutputInvalid])
async def test_a_model_failure_anywhere_ends_the_turn_with_its_code(engine: EngineName, post: Post, failure: type[InterlockError]):
    turns: list[tuple[str, str, str, list[Any]]] = [
        ("admin", "Hi.", "supervisor", [failure("No.")]),
        ("admin", "Hello.", "supervisor", ["respond_admin", failure("No.")]),
        ("admin", "The docs.", "customer_from_bridge/customer", ["route_bridge", failure("No.")]),
        ("user", "Hello.", "customer", [failure("No.")]),
    ]
    for role, text, node, replies in turns:
        result, events = await post.take(engine, text, *replies, role=role)
        assert (result.status, code(result), result.output) == ("error", failure.code, None)
        assert result.error is not None
        assert result.error.node == node
        assert names(events, "on_chat_model_error") == ["Model.reply"]


async def test_an_exception_of_a_model_is_typed(engine: EngineName, post: Post):
    class Broken(ScriptedModel):
        async def reply(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("boom")

    class Odd(ScriptedModel):
        async def reply(self, *_: Any, **__: Any) -> Any:
            return {"text": "route_bridge"}

    for model, expected in ((Broken(), "capability_failed"), (Odd(), "capability_result_invalid")):
        for role in ("admin", "user"):
            result, _ = await post.take(engine, "Hello.", role=role, model=model)
            assert code(result) == expected


async def test_the_keywords_are_a_setting(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    replies = ["route_bridge", "Well."] * 4
    async with app(engine, tmp_path, *replies, gateway_path=base, gateway_keywords=("visitor", "front desk")) as running:
        for text, path in {"A VISITOR asks.": BRIDGE, "front  desk": BRIDGE, "the docs": BRIDGE[:1], "customer": BRIDGE[:1]}.items():
            result = await running.run("gateway", text, role="admin")
            assert (result.path, result.output) == (path, "Well.")


async def test_tool_calls_are_not_a_label(engine: EngineName, post: Post):
    result, events = await post.take(engine, "Hello.", calls(call("route_bridge")), "Well.", role="admin")
    assert (result.path, result.output, names(events, "on_tool_start")) == (("supervisor",), "Well.", [])
