"""Tables of an answer: as tables, as charts where one column groups the others, and as files."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from tests.studio.browser import studio
from tests.studio.test_hostile import echo

GROUPED = "| country | revenue (EUR) | share |\n| --- | ---: | ---: |\n| Germany | 3,128,184.86 | 61 % |\n| France | 1,953,484.21 | 39 % |"
SERIES = "| month | orders |\n| --- | ---: |\n| 2025-01 | 12 |\n| 2025-02 | 30 |\n| 2025-03 | 25 |"
WORDS = '| name | city |\n| --- | --- |\n| Ada | London |\n| =1+1 | "Paris", France |'


async def test_a_table_becomes_a_chart_and_a_table_again(tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        await page.submit("echo", GROUPED, session="t")
        await page.open("#/studio/echo/t")
        table = page.page.get_by_role("region", name="Table: country, revenue (EUR), share")
        await expect(table.get_by_role("row")).to_have_count(3)
        # What is loaded later draws the turn again, as a table.
        await page.page.wait_for_load_state("networkidle")
        await page.page.get_by_role("button", name="Chart").click()
        chart = page.page.get_by_role("img", name="revenue (EUR) by country: Germany 3,128,184.86, France 1,953,484.21")
        await expect(chart).to_be_visible()
        await expect(table).to_be_hidden()
        wide, narrow = [await bar.bounding_box() for bar in await chart.locator("rect").all()]
        assert wide is not None
        assert narrow is not None
        assert abs(narrow["width"] / wide["width"] - 1953484.21 / 3128184.86) < 0.01
        await page.page.get_by_label("What the chart shows").select_option("share")
        await expect(page.page.get_by_role("img", name="share by country")).to_be_visible()
        await page.page.get_by_role("button", name="Chart").click()
        await expect(table).to_be_visible()


async def test_a_column_of_times_is_a_series_and_words_have_no_chart(tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        await page.submit("echo", SERIES, session="t")
        await page.open("#/studio/echo/t")
        await page.page.get_by_role("button", name="Chart").click()
        await expect(page.page.get_by_role("img", name="orders by month")).to_contain_text("2025-01")
        await page.submit("echo", WORDS, session="w")
        await page.open("#/studio/echo/w")
        await expect(page.page.get_by_role("button", name="CSV")).to_be_visible()
        await expect(page.page.get_by_role("button", name="Chart")).to_have_count(0)


async def test_a_table_is_saved_as_csv_in_which_nothing_is_a_formula(tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        await page.submit("echo", WORDS, session="w")
        await page.open("#/studio/echo/w")
        async with page.page.expect_download() as downloading:
            await page.page.get_by_role("button", name="CSV").click()
        download = await downloading.value
        assert download.suggested_filename == "table.csv"
        await download.save_as(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    assert lines == ["name,city", "Ada,London", '\'=1+1,"""Paris"", France"']
