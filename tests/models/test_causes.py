"""What goes wrong at a provider is named to the person, with the setting to look at: by the real client, for every agent alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings
from interlock.capabilities.model import Message
from interlock.errors import ModelError, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.models.langchain import open_provider
from tests.support.openai_server import KEY, MODEL, OpenAIServer, Refusal, error_body

HELLO = [Message(role="user", text="hunter2")]

CAUSES: dict[str, tuple[Refusal, type[ModelError], str]] = {
    "wrong key": (
        Refusal(401, error_body("Incorrect API key provided: swordfish.", code="invalid_api_key")),
        ModelRefused,
        "INTERLOCK_MODEL_API_KEY",
    ),
    "wrong key, in Google's words": (
        Refusal(400, {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}),
        ModelRefused,
        "INTERLOCK_MODEL_API_KEY",
    ),
    "no credit": (
        Refusal(429, error_body("You exceeded your current quota.", kind="insufficient_quota", code="insufficient_quota")),
        ModelRefused,
        "no credit",
    ),
    "no credit, in Anthropic's words": (
        Refusal(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low."}}),
        ModelRefused,
        "no credit",
    ),
    "rate limit": (
        Refusal(429, error_body("Rate limit reached for requests", kind="requests", code="rate_limit_exceeded")),
        ModelUnavailable,
        "rate limit",
    ),
    "unknown model": (
        Refusal(404, error_body("The model `swordfish` does not exist", code="model_not_found")),
        ModelRefused,
        "Check the name in INTERLOCK_MODEL.",
    ),
    "no such address": (Refusal(404, {"detail": "Not Found"}), ModelRefused, "INTERLOCK_MODEL_BASE_URL"),
    "context": (
        Refusal(400, error_body("This model's maximum context length is 8192 tokens.", code="context_length_exceeded")),
        ModelRefused,
        "longer than the model's context",
    ),
    "filter": (
        Refusal(400, error_body("The response was filtered: content management policy.", code="content_filter")),
        ModelRefused,
        "filtered",
    ),
    "schema": (
        Refusal(400, error_body("Invalid schema for response_format 'Swordfish'", param="response_format")),
        ModelRefused,
        "structured output",
    ),
    "overloaded": (Refusal(503, error_body("The engine is overloaded", kind="server_error")), ModelUnavailable, "overloaded"),
    "failing": (Refusal(500, error_body("The server had an error", kind="server_error")), ModelUnavailable, "The model's server failed."),
    "late": (Refusal(504, {"error": {"message": "upstream timed out"}}), ModelTimeout, "in time"),
}

LIBRARIES = re.compile(r"[A-Z]\w+(Error|Exception|Timeout)\b|openai\.|httpx|langchain", re.IGNORECASE)


@pytest.mark.parametrize("how", ["reply", "stream"])
@pytest.mark.parametrize(("refusal", "kind", "says"), CAUSES.values(), ids=CAUSES.keys())
@pytest.mark.filterwarnings("ignore:Invalid schema for OpenAI")
async def test_the_cause_is_reported_without_the_text_of_the_server(refusal: Refusal, kind: type[ModelError], says: str, how: str) -> None:
    with OpenAIServer("strict", {"text": [refusal]}) as server:
        model = open_provider(f"openai:{MODEL}", base_url=server.url, api_key=KEY, timeout_s=20, max_tokens=9, max_reply_bytes=1000)
        with pytest.raises(ModelError) as raised:
            await (model.reply(HELLO) if how == "reply" else anext(model.stream(HELLO)))
        await model.aclose()
    assert type(raised.value) is kind
    told = str(raised.value)
    assert says in told
    assert not LIBRARIES.search(told)
    assert not any(hidden in told.lower() for hidden in ("swordfish", "hunter2", KEY))
    assert len(server.requests) == 1


async def test_an_unreachable_server_names_the_address_setting() -> None:
    model = open_provider(f"openai:{MODEL}", base_url="http://127.0.0.1:1/v1", api_key=KEY, timeout_s=5, max_tokens=9, max_reply_bytes=99)
    with pytest.raises(ModelUnavailable, match="INTERLOCK_MODEL_BASE_URL") as raised:
        await model.reply(HELLO)
    await model.aclose()
    assert not LIBRARIES.search(str(raised.value))


@pytest.mark.parametrize("wrong", [{"model_api_key": "sk-wrong"}, {"model": "openai:gpt-unknown"}], ids=["key", "model"])
async def test_a_wrong_setting_is_named_in_a_real_request(wrong: dict[str, Any], tmp_path: Path) -> None:
    with OpenAIServer("strict", {"text": ["never"]}) as server:
        given = {**server.settings(), **wrong}
        async with Interlock(Settings(engine="direct", data_dir=tmp_path, **given)) as app:
            result = await app.run("sam", "hello")
    expected = "INTERLOCK_MODEL_API_KEY" if "model_api_key" in wrong else "INTERLOCK_MODEL"
    assert result.error is not None
    assert expected in result.output
    assert "sk-wrong" not in str(result.to_json())


@pytest.mark.parametrize("cause", ["wrong key", "no credit", "rate limit", "unknown model", "context"])
async def test_sam_reports_the_same_causes(cause: str, tmp_path: Path) -> None:
    refusal = CAUSES[cause][0]
    said: dict[str, str] = {}
    with OpenAIServer("strict", {"text": [refusal], "PlannerDecision": [refusal], "tools": [refusal]}) as server:
        async with Interlock(Settings(engine="direct", data_dir=tmp_path, **server.settings())) as app:
            for agent, role in (("sam", None), ("analyst", None), ("gateway", "user")):
                result = await app.run(agent, "Who are our customers?", session=f"s-{agent}", role=role)
                assert result.error is not None
                said[agent] = result.error.message
    assert CAUSES[cause][2] in said["sam"]
    assert len(set(said.values())) == 1
