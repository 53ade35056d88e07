"""schemathesis calls the server by two descriptions: the server's own, and the part of LangGraph's that the server claims."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import Running, serving
from tests.support.interop import environment

EXAMPLES = os.environ.get("INTERLOCK_TEST_EXAMPLES", "5")
CHECKS = {
    "interlock": "not_a_server_error,response_schema_conformance,content_type_conformance",
    "langgraph": "not_a_server_error,response_schema_conformance",  # its errors are `application/json`, ours `application/problem+json`
}
OPEN_ENDED = "events$|/stream|guarantees$"
"""Streams do not end by themselves, and the guarantees take longer than a request of a generator may."""


def described_by_langgraph(running: Running) -> dict[str, Any]:
    """Return LangGraph's description of the routes that the server has."""
    (path,) = (environment("langgraph").parent / "lib").glob("python*/site-packages/openapi.json")
    document = json.loads(path.read_text())
    ours = {(re.sub(r"{\w+}", "{}", route.path), route.method.lower()) for route in running.server.routes}
    paths: dict[str, dict[str, Any]] = {}
    for path, methods in document["paths"].items():
        known = {method: one for method, one in methods.items() if (re.sub(r"{\w+}", "{}", path), method) in ours}
        # Crons and the store are refused with a reason.
        if known and not re.search("crons|store", path):
            paths[path] = known
    # RemoteGraph reads that there is no earlier checkpoint as null; the description has no word for it.
    del document["components"]["schemas"]["ThreadState"]["properties"]["parent_checkpoint"]
    assert sum(map(len, paths.values())) > 30
    return {**document, "paths": paths}


@pytest.mark.parametrize("whose", ["interlock", "langgraph"])
async def test_generated_requests_are_answered_as_the_description_says(tmp_path: Path, whose: str):
    program = await asyncio.to_thread(environment, "schemathesis") / "st"
    async with serving(tmp_path / "data", server_queue=10**6) as running:
        key = await running.key("generator", roles=("user", "admin", "operator"))
        own = (await running.client().get("/openapi.json")).json()
        description = tmp_path / "openapi.json"
        description.write_text(json.dumps(own if whose == "interlock" else await asyncio.to_thread(described_by_langgraph, running)))
        options = {
            "--url": running.process.address,
            "--header": f"Authorization: Bearer {key}",
            "--max-examples": EXAMPLES,
            "--checks": CHECKS[whose],
            "--seed": "1",
            "--phases": "examples,fuzzing",
            "--exclude-path-regex": OPEN_ENDED,
            "--request-timeout": "60",
        }
        given = [part for pair in options.items() for part in pair]
        process = await asyncio.create_subprocess_exec(
            program,
            "run",
            description,
            *given,
            "--no-color",
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 800)
    assert process.returncode == 0, out.decode()[-6000:]
    assert b"Tested: " in out
