"""The official conformance tests of the Model Context Protocol, revision 2026-07-28, on a real port."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_fixtures import FIXTURES
from tests.server.serving import serving
from tests.support.npm import NODE, npm_packages

VERSION = "0.2.0-alpha.12"

# What a scenario checks that no agent does, and why. Everything else has to succeed.
NOT_OURS: dict[str, dict[str, str]] = {
    "server-stateless": {
        "sep-2575-server-rejects-undeclared-capability": "needs a tool that asks the client for a sample; agents have their own models",
        "sep-2575-missing-capability-http-400": "the same",
    },
    "tools-list": {},
    "tools-call-simple-text": {},
    "tools-call-error": {},
    "tools-call-with-progress": {},
    "server-sse-multiple-streams": {},
    "dns-rebinding-protection": {},
    "http-header-validation": {},
    "input-required-result-missing-input-response": {},
    "input-required-result-result-type": {},
    "input-required-result-unsupported-methods": {},
    "input-required-result-tampered-state": {},
    "input-required-result-ignore-extra-params": {
        "sep-2322-ignore-unexpected-params": "a warning: it expects a form with the name 'user_name'",
    },
    "input-required-result-validate-input": {},
    # These fill in forms with names of their own, whatever form the server has asked to be filled in, so they are asked again.
    "input-required-result-basic-elicitation": {"sep-2322-elicitation-incomplete": "it expects a form with the name 'user_name'"},
    "input-required-result-request-state": {"sep-2322-request-state-complete": "it fills in a field 'ok'"},
    "input-required-result-multi-round": {"sep-2322-multi-round-r2": "it fills in a field 'name'"},
}


@pytest.mark.parametrize("scenario", NOT_OURS)
async def test_the_server_passes_a_scenario(tmp_path: Path, scenario: str):
    folder = await asyncio.to_thread(npm_packages, f"mcp-conformance-{VERSION}", f"@modelcontextprotocol/conformance@{VERSION}")
    program = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    results = tmp_path / "results"
    async with serving(tmp_path, agents=FIXTURES) as running:
        options = ["--url", f"{running.process.address}/mcp", "--scenario", scenario, "--spec-version", "2026-07-28", "-o", str(results)]
        process = await asyncio.create_subprocess_exec(
            NODE, program, "server", *options, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), 120)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
    found = list(results.rglob("checks.json"))
    assert found, out.decode()
    checks: list[dict[str, Any]] = [check for file in found for check in json.loads(file.read_text())]
    failed = {check["id"]: check.get("errorMessage", check["description"]) for check in checks if check["status"] in {"FAILURE", "WARNING"}}
    assert failed.keys() == NOT_OURS[scenario].keys(), failed
    assert any(check["status"] == "SUCCESS" for check in checks)
