from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.capabilities.tools import ToolRequest
from interlock.errors import StoreCorrupt, StoreUnavailable
from interlock.tools.runner import Tools
from interlock_agents.analyst.warehouse.demo import TABLES
from interlock_agents.shop.knowledge import DOCUMENTS, MAX_ARTICLES, MAX_PASSAGE, Knowledge
from interlock_agents.shop.words import content, words
from tests.support.shop import open_tools


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    return Knowledge(tmp_path_factory.mktemp("data"), collection=DOCUMENTS)


def found(documents: Knowledge, query: str) -> list[str]:
    answer: Any = documents.search(query)
    return [document["id"] for document in answer["documents"]]


# Those that ship


def test_every_demo_document_has_a_title_and_text():
    texts = {file.stem: file.read_text(encoding="utf-8") for file in DOCUMENTS.demo.glob("*.md")}
    assert 25 <= len(texts) <= 40
    for name, text in texts.items():
        title, _, rest = text.partition("\n\n")
        assert title.startswith("# "), name
        assert 3 <= len(rest.strip().splitlines()) <= 12, name
        assert max(map(len, text.splitlines())) <= 120, name
    assert len({text.partition("\n")[0] for text in texts.values()}) == len(texts)


def test_every_document_is_found_by_its_own_title(documents: Knowledge):
    for file in DOCUMENTS.demo.glob("*.md"):
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        assert file.stem in found(documents, title), title


def test_a_result_lists_documents(documents: Knowledge):
    answer: Any = documents.search("net revenue")
    assert set(answer) == {"query", "count", "documents"}
    assert (answer["query"], len(answer["documents"])) == ("net revenue", MAX_ARTICLES)
    assert answer["count"] > MAX_ARTICLES
    first = answer["documents"][0]
    assert set(first) == {"id", "title", "passage", "lacks"}
    assert (first["id"], first["title"]) == ("net-revenue", "Net revenue")
    assert first["passage"].startswith("Net revenue is gross revenue less the orders that came to nothing")
    assert all(len(document["passage"]) <= MAX_PASSAGE for document in answer["documents"])


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("what is net revenue", "net-revenue"),
        ("gross revenue", "gross-revenue"),
        ("churn", "churn"),
        ("lost customers", "churn"),
        ("what is an active customer", "active-customer"),
        ("how do we define an active customer", "active-customer"),
        ("active customer definition", "active-customer"),
        ("when is the warehouse refreshed", "refresh-schedule"),
        ("how often is the data refreshed", "refresh-schedule"),
        ("how is the return rate calculated", "return-rate"),
        ("AOV", "average-order-value"),
        ("order_items columns", "table-order-items"),
        ("which segments are there", "customer-segments"),
        ("when does the fiscal year begin", "fiscal-calendar"),
        ("how are exchange rates applied", "exchange-rates"),
        ("how are refunds booked", "refund-accounting"),
        ("VAT", "value-added-tax"),
        ("data quality", "data-quality"),
        ("security policy", "data-security"),
        ("the nightly load failed", "on-call-load-failed"),
        ("why do two reports differ", "differing-numbers"),
        ("how long are orders kept", "data-retention"),
        ("status of an order", "order-status"),
    ],
)
def test_a_question_finds_the_document_that_answers_it(documents: Knowledge, question: str, document: str):
    assert found(documents, question)[0] == document


@pytest.mark.parametrize("table", TABLES)
def test_every_table_of_the_warehouse_is_described_with_its_columns(documents: Knowledge, table: str):
    name = f"table-{table.replace('_', '-')}"
    assert name in found(documents, f"columns of the table {table}")
    named = set(re.findall(r"`(\w+)`", (DOCUMENTS.demo / f"{name}.md").read_text(encoding="utf-8")))
    assert set(TABLES[table]) <= named


def test_a_title_with_all_words_comes_first(documents: Knowledge):
    assert found(documents, "customers table")[0] == "table-customers"
    assert set(found(documents, "table orders")[:2]) == {"table-orders", "table-order-items"}


def test_every_column_in_a_document_exists():
    known = {*TABLES, *(column for columns in TABLES.values() for column in columns)}
    values = {"processing", "shipped", "delivered", "cancelled", "returned", "consumer", "business", "public", "web", "app", "store"}
    for file in DOCUMENTS.demo.glob("*.md"):
        named = set(re.findall(r"`([a-z_]+)`", file.read_text(encoding="utf-8")))
        assert named <= known | values, file.name


@pytest.mark.parametrize(
    "query", ["attrition", "handbook attrition", "What does the handbook say about attrition?", "", "?", "hamster food"]
)
def test_words_that_no_document_has_find_nothing(documents: Knowledge, query: str):
    assert documents.search(query) == {"query": query, "count": 0, "documents": []}


@given(
    st.text(max_size=80) | st.lists(st.sampled_from(['"net', "revenue*", "NEAR(", "OR", "title:", "^", "-", "\x00", "churn"])).map(" ".join)
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_hostile_queries_never_fail_or_match_without_a_common_word(documents: Knowledge, query: str):
    for name in found(documents, query):
        has = {word[:2] for word in words((DOCUMENTS.demo / f"{name}.md").read_text(encoding="utf-8"))}
        assert any(word[:2] in has for word in content(query))


# By the gateway, and of one's own


async def ask(tools: Tools, query: str) -> Any:
    return await tools.run("analyst", ToolRequest(tool="search", args={"query": query}))


async def test_the_description_names_what_is_searched(tmp_path: Path):
    (search,) = (tool for tool in await open_tools(tmp_path).offered("analyst") if tool.name == "search")
    (help_,) = (tool for tool in await open_tools(tmp_path).offered("support") if tool.name == "knowledge_base.search")
    assert search.description.startswith("Search the company's handbook of data")
    assert help_.description.startswith("Search the help articles of the shop")
    properties: Any = search.parameters["properties"]
    assert properties.keys() == {"query", "titled"}
    assert search.parameters["required"] == help_.parameters["required"] == ["query"]


async def test_a_page_that_only_mentions_a_word_is_not_titled(tmp_path: Path):
    tools = open_tools(tmp_path)

    async def titles(query: str, *, titled: bool) -> list[str]:
        found: Any = (await tools.run("analyst", ToolRequest(tool="search", args={"query": query, "titled": titled}))).result
        return [one["title"] for one in found["documents"]]

    assert (await titles("emails", titled=False))[0] == "New and returning customers"
    assert await titles("emails", titled=True) == []
    assert await titles("last order", titled=True) == []
    assert (await titles("shipping cost", titled=True))[0] == "Delivery charges and shipping fees"
    assert (await titles("card numbers stored", titled=True))[0] == (await titles("card numbers stored", titled=False))[0]


async def test_own_documents_replace_the_handbook_and_not_the_articles(tmp_path: Path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "tides.md").write_text("# Tides\n\nHigh water is twice a day.", encoding="utf-8")
    tools = open_tools(tmp_path / "data", documents_path=own)
    assert (await ask(tools, "high water")).result == {
        "query": "high water",
        "count": 1,
        "documents": [{"id": "tides", "title": "Tides", "passage": "High water is twice a day.", "lacks": []}],
    }
    assert (await ask(tools, "net revenue")).result["count"] == 0
    articles: Any = await tools.run("support", ToolRequest(tool="knowledge_base.search", args={"query": "forgot password"}))
    assert articles.result["articles"][0]["id"] == "password"
    await ask(open_tools(tmp_path / "data"), "net revenue")
    names = sorted(file.name for file in (tmp_path / "data").iterdir())
    assert (len(names), names[-1]) == (3, "knowledge.sqlite")
    assert names[0].startswith("documents-")
    assert names[1] == "documents.sqlite"


async def test_a_folder_in_the_home_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tides.md").write_text("High water is twice a day.", encoding="utf-8")
    tools = open_tools(tmp_path / "data", documents_path=Path("~/notes"))
    assert (await ask(tools, "water")).result["count"] == 1


def test_errors_about_a_folder_name_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    latin = tmp_path / "latin"
    latin.mkdir()
    (latin / "cafe.md").write_bytes(b"caf\xe9")
    with pytest.raises(StoreUnavailable, match="Document folder 'none' is not a folder"):
        Knowledge(tmp_path, path=tmp_path / "none", collection=DOCUMENTS).search("x")
    with pytest.raises(StoreCorrupt, match=r"Document 'cafe.md' is not UTF-8"):
        Knowledge(tmp_path, path=latin, collection=DOCUMENTS).search("x")
    monkeypatch.setattr("interlock_agents.shop.knowledge.MAX_FILES", 3)
    with pytest.raises(StoreUnavailable, match="documents; the limit is 3"):
        Knowledge(tmp_path, collection=DOCUMENTS).search("x")
