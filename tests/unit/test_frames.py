"""How deep a model call is: whoever reads a traceback, or steps through a turn with a debugger, meets each of these functions."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import interlock
from interlock.cli import main
from interlock_agents.sam.backends import StubBackend
from interlock_agents.sam.capabilities import ModelRequest, ModelResponse

SOURCE = str(Path(interlock.__file__).parents[1])


def test_a_model_is_eleven_functions_away_from_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ours: list[str] = []
    answer = StubBackend.generate

    async def look_back(self: StubBackend, request: ModelRequest) -> ModelResponse:
        ours.extend(frame.function for frame in inspect.stack(context=0)[1:] if frame.filename.startswith(SOURCE))
        return await answer(self, request)

    monkeypatch.setattr(StubBackend, "generate", look_back)
    monkeypatch.setattr(sys, "argv", ["interlock", "run", "sam", "hello", "--model", "stub", "--engine", "direct"])
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert 0 < len(ours) <= 11, ours
