from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FLOOD = Path(__file__).with_name("flood.py")
INPUTS = 10_000


def test_ten_thousand_inputs_have_typed_results_in_bounded_memory(tmp_path: Path):
    command = [sys.executable, "-W", "error", str(FLOOD), str(INPUTS)]
    env = {"MALLOC_MMAP_THRESHOLD_": "1000000"}  # memory that was freed does not count, and glibc would keep up to half of it
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False, text=True)
    assert ran.stdout, ran.stderr
    found = json.loads(ran.stdout)
    assert found["wrong"] == []
    assert found["sent"] >= INPUTS
    assert found["megabytes"] < 300
    assert ran.returncode == 0
    # the flood is not of one kind only
    expected = {"success", "media_malformed", "media_bomb", "unsupported_media", "input_empty", "input_encoding", "input_schema"}
    assert expected <= {code for code, times in found["seen"].items() if times >= 20}
