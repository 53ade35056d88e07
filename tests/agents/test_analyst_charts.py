"""Charts of the analyst's results: drawn where there is one grouping, true to the figures, in a terminal and as SVG."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import EngineName
from interlock_agents.analyst.charts import chart_of, chart_wanted, svg_of, text_of, without_chart
from tests.support.analyst import app

SVG = "{http://www.w3.org/2000/svg}"
BY_CHANNEL: Any = {"columns": ["channel", "orders"], "rows": [["web", 20], ["app", 10], ["store", 5]]}
BY_MONTH: Any = {"columns": ["month", "revenue_eur"], "rows": [["2025-01", 100.0], ["2025-02", 50.0], ["2025-03", 200.0]]}

WORDS = {
    "revenue by country as a chart": ("any", "revenue by country"),
    "draw it": ("any", ""),
    "now plot that please": ("any", "please"),
    "as bars": ("bars", ""),
    "show it as a line chart": ("line", ""),
    "make a bar chart of orders by month": ("bars", "orders by month"),
    "plot orders by week": ("any", "orders by week"),
    "revenue by country": (None, "revenue by country"),
    "how many desks did we sell in line with the plan": (None, "how many desks did we sell in line with the plan"),
}


@pytest.mark.parametrize("question", WORDS)
def test_the_request_for_a_chart_is_removed_from_the_question(question: str):
    assert (chart_wanted(question), without_chart(question)) == WORDS[question]


def test_time_is_drawn_as_a_line_and_other_groupings_as_bars():
    bars, line = chart_of(BY_CHANNEL), chart_of(BY_MONTH)
    assert bars is not None
    assert line is not None
    assert (bars.kind, line.kind) == ("bars", "line")
    assert text_of(bars).splitlines()[1:] == [f"web    {'█' * 34} 20", f"app    {'█' * 17} 10", f"store  {'█' * 8}▌ 5"]
    shown = text_of(line).splitlines()
    assert shown[1].startswith("200.00 ┤")
    assert shown[-2].strip().startswith("0 ┤")
    assert shown[-1].split() == ["2025-01", "2025-03"]


NOT_DRAWN: dict[str, dict[str, Any]] = {
    "one value": {"columns": ["orders"], "rows": [[5]]},
    "one row": {"columns": ["channel", "orders"], "rows": [["web", 5]]},
    "two groupings": {"columns": ["country", "channel", "orders"], "rows": [["Italy", "web", 1], ["Italy", "app", 2]]},
    "two figures": {"columns": ["channel", "orders", "units"], "rows": [["web", 1, 2], ["app", 2, 3]]},
    "no numbers": {"columns": ["city", "country"], "rows": [["Rome", "Italy"], ["Lyon", "France"]]},
    "a name twice": {"columns": ["month", "orders"], "rows": [["2025-01", 1], ["2025-01", 2]]},
    "a gap": {"columns": ["month", "orders"], "rows": [["2025-01", 1], ["2025-02", None]]},
}


@pytest.mark.parametrize("result", NOT_DRAWN.values(), ids=NOT_DRAWN)
def test_only_a_result_with_one_grouping_is_drawn(result: Any):
    assert chart_of(result) is None


VALUES = st.lists(st.one_of(st.integers(-(10**9), 10**9), st.floats(-1e9, 1e9)), min_size=2, max_size=70)


@given(VALUES, st.sampled_from(["bars", "line"]), st.text(max_size=30))
def test_an_svg_is_well_formed_and_true_to_scale(values: list[float], kind: Any, title: str):
    chart = chart_of({"columns": ["a<b", "orders"], "rows": [[f"{at}&<x>\x00", value] for at, value in enumerate(values)]}, kind)
    assert chart is not None
    assert len(text_of(chart).splitlines()) <= 63
    picture = ET.fromstring(svg_of(chart, title))  # noqa: S314 - written by ourselves
    high = float(picture.attrib["height"])
    if kind == "bars":
        drawn = [float(one.attrib["width"]) for one in picture.iter(f"{SVG}rect") if one.attrib.get("class") == "bar"]
        largest = max(map(abs, chart.values)) or 1.0
        assert len(drawn) + chart.omitted == len(values)
        scale = max(drawn)
        assert all(abs(width - abs(value) / largest * scale) < 0.2 for width, value in zip(drawn, chart.values, strict=True))
    else:
        heights = [float(one.attrib["cy"]) for one in picture.iter(f"{SVG}circle")]
        assert len(heights) == len(chart.values)
        assert all(0 < one < high for one in heights)
        ordered = sorted(range(len(heights)), key=lambda at: chart.values[at])
        assert all(heights[one] >= heights[after] - 0.2 for one, after in pairwise(ordered))


async def test_a_chart_can_be_requested_with_or_after_the_question(engine: EngineName, tmp_path: Path):
    async with app(engine, tmp_path, tool_seconds=60.0) as running:
        early = await running.run("analyst", "draw it", session="s")
        asked = await running.run("analyst", "orders by channel in 2025 as a chart", session="s")
        plain = await running.run("analyst", "orders by month in 2025", session="s")
        after = await running.run("analyst", "draw it as bars", session="s")
        single = await running.run("analyst", "orders in 2025 as a chart", session="s")
    assert early.output.startswith("What shall I draw?")
    assert "█ 14,016\n" in asked.output
    assert "|" not in asked.output
    assert "█" not in plain.output
    assert after.output.count("█ ") + after.output.count("▏") > 0
    assert len(after.output.splitlines()) == 14
    assert single.output.startswith("This cannot be drawn")
    assert "23,219" in single.output


def test_the_commands_save_an_svg_and_overwrite_nothing(tmp_path: Path):
    script = Path(sys.executable).with_name("interlock")
    environment = {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path / "data")}

    def ran(*command: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [script, *command], cwd=tmp_path, env=environment, input=said, capture_output=True, check=False, timeout=120, text=True
        )

    assert ran("run", "analyst", "orders by channel", "--save", "one.svg").returncode == 0
    assert len([one for one in ET.parse(tmp_path / "one.svg").iter(f"{SVG}rect") if one.attrib.get("class") == "bar"]) == 3  # noqa: S314
    assert ran("run", "analyst", "orders in 2025", "--save", "two.svg").returncode == 1
    assert not (tmp_path / "two.svg").exists()
    talked = ran("chat", "analyst", said="/save x.csv\norders by month in 2025\n/save x.csv\n/save x.svg\n/save x.svg\n/save\n")
    assert talked.returncode == 0
    assert "nothing to save before the first turn" in talked.stderr
    assert "Saved 12 rows" in talked.stderr
    assert "a chart of 12 values" in talked.stderr
    assert "File exists" in talked.stderr
    assert "Name a new file" in talked.stderr
    assert len((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()) == 13
    assert len(list(ET.parse(tmp_path / "x.svg").iter(f"{SVG}circle"))) == 12  # noqa: S314
