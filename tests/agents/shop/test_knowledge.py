from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.errors import StoreCorrupt, StoreError, StoreUnavailable
from interlock_agents.shop import knowledge as module
from interlock_agents.shop.knowledge import MAX_ARTICLES, MAX_BYTES, MAX_PASSAGE, Knowledge
from interlock_agents.shop.words import content, words

DEMO = Path(module.__file__).parent / "articles"


@pytest.fixture(scope="module")
def knowledge(tmp_path_factory: pytest.TempPathFactory) -> Knowledge:
    return Knowledge(tmp_path_factory.mktemp("data"))


def found(knowledge: Knowledge, query: str) -> list[str]:
    answer: Any = knowledge.search(query)
    return [article["id"] for article in answer["articles"]]


def own(folder: Path, **articles: str) -> Knowledge:
    (folder / "articles").mkdir(exist_ok=True)
    for name, text in articles.items():
        (folder / "articles" / f"{name}.md").write_text(text, encoding="utf-8")
    return Knowledge(folder / "data", path=folder / "articles")


# The demo shop


def test_every_demo_article_has_a_title_and_text():
    texts = [file.read_text(encoding="utf-8") for file in DEMO.glob("*.md")]
    assert len(texts) >= 30
    assert all(text.startswith("# ") and len(text) > 200 for text in texts)
    assert len({text.partition("\n")[0] for text in texts}) == len(texts)


def test_a_result_has_id_title_and_passage(knowledge: Knowledge):
    answer: Any = knowledge.search("I forgot my password")
    assert answer["query"] == "I forgot my password"
    assert answer["count"] == 1
    (article,) = answer["articles"]
    assert set(article) == {"id", "title", "passage", "lacks"}
    assert article["lacks"] == []
    assert (article["id"], article["title"]) == ("password", "Resetting a password")
    assert "valid for 60 minutes" in article["passage"]


@pytest.mark.parametrize(
    ("question", "article"),
    [
        ("How do I return a product?", "returns"),
        ("I want my money back", "refunds"),
        ("Where is my refund? It hasn't arrived", "refund-missing"),
        ("how long does delivery take", "delivery-times"),
        ("what does shipping cost", "delivery-costs"),
        ("track my parcel", "tracking"),
        ("my parcel is lost", "late-parcel"),
        ("I want to cancel my order", "cancel-order"),
        ("can I change the address of my order", "change-order"),
        ("where can I find my invoice", "invoices"),
        ("which payment methods do you accept", "payment"),
        ("my card was declined", "payment-failed"),
        ("my desk arrived broken", "damaged"),
        ("a screw is missing", "missing-parts"),
        ("you sent me the wrong item", "wrong-product"),
        ("how long is the warranty on a desk", "warranty"),
        ("make a warranty claim", "warranty-claim"),
        ("do you deliver to Switzerland", "delivery-countries"),
        ("can you assemble my furniture", "assembly-service"),
        ("how do I assemble a shelf", "assembly"),
        ("how do I care for oak", "care-wood"),
        ("my standing desk shows error E01", "standing-desk-help"),
        ("lamp flickers", "lamp-help"),
        ("open a business account", "business"),
        ("delete my account", "privacy"),
        ("unsubscribe from newsletter", "newsletter"),
        ("express delivery tomorrow", "express"),
        ("pay in instalments", "instalments"),
    ],
)
def test_a_customers_question_finds_the_article_that_answers_it(knowledge: Knowledge, question: str, article: str):
    assert found(knowledge, question)[0] == article


@pytest.mark.parametrize("query", ["quantum entanglement", "the of and", "", "?", "how do I fix my car engine", "hamster food", "%", "*"])
def test_a_question_that_no_article_answers_finds_none(knowledge: Knowledge, query: str):
    assert knowledge.search(query) == {"query": query, "count": 0, "articles": []}


def test_a_result_is_limited_and_counts_all_matches(knowledge: Knowledge):
    answer: Any = knowledge.search("order")
    assert len(answer["articles"]) == MAX_ARTICLES < answer["count"]


@pytest.mark.parametrize(
    "query",
    [
        '"',
        'refund"',
        "refund*",
        "title:refund",
        "refund AND NOT refund",
        "NEAR(refund money, 2)",
        "^refund",
        "{title text}: refund",
        "refund -money",
        "(refund",
        "refund\x00",
        "fingerprint OR 1=1",
    ],
)
def test_syntax_in_a_question_has_no_effect(knowledge: Knowledge, query: str):
    answer, plain = knowledge.search(query), knowledge.search(" ".join(words(query)))
    assert answer["articles"] == plain["articles"]


PIECES = (
    "refund",
    '"money',
    'back"',
    "*",
    "NEAR(",
    "AND",
    "OR",
    "NOT",
    "title:",
    "^",
    "-",
    "the",
    "xyzzy",
    "lamp",
    ")",
    "{a}",
    "+",
    "\x00",
)


@given(
    st.one_of(
        st.text(max_size=80),
        st.lists(st.sampled_from(PIECES)).map(" ".join),
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_queries_never_fail_or_match_without_a_common_word(knowledge: Knowledge, query: str):
    answer: Any = knowledge.search(query)
    assert len(answer["articles"]) <= MAX_ARTICLES
    for article in answer["articles"]:
        has = {word[:2] for word in words((DEMO / f"{article['id']}.md").read_text(encoding="utf-8"))}
        assert any(word[:2] in has for word in content(query))


# A folder of one's own


def test_own_articles_are_searched_with_subfolders(tmp_path: Path):
    knowledge = own(tmp_path, plain="Our hedgehogs sleep all winter.\n", titled="# Hedgehog food\n\nCat food, no milk.\n")
    (tmp_path / "articles" / "deep").mkdir()
    (tmp_path / "articles" / "deep" / "wild_boar.md").write_text("They eat hedgehog food too.")
    (tmp_path / "articles" / "other.txt").write_text("hedgehog")
    (tmp_path / "articles" / "folder.md").mkdir()
    answer: Any = knowledge.search("hedgehogs")
    assert {(article["id"], article["title"]) for article in answer["articles"]} == {
        ("plain", "plain"),
        ("titled", "Hedgehog food"),
        ("deep/wild_boar", "wild boar"),
    }
    assert found(knowledge, "hedgehog food")[0] == "titled"  # it is in the title
    assert [*(tmp_path / "articles").rglob("*.sqlite")] == []


def test_the_matching_passage_of_a_long_article_is_returned(tmp_path: Path):
    filler = "\n\n".join(f"Paragraph {n} says nothing of use. " * 8 for n in range(30))
    knowledge = own(
        tmp_path,
        long=f"# Everything\n\n{filler}\n\n## Hedgehogs\n\nThey sleep in winter.\n\n{filler}",
        line=f"# Line\n\n{'word ' * 5000} hedgehog",
    )
    answer: Any = knowledge.search("do hedgehogs sleep in winter")
    assert answer["articles"][0]["id"] == "long"
    assert answer["articles"][0]["passage"].startswith("## Hedgehogs\nThey sleep in winter.")
    assert all(len(article["passage"]) <= MAX_PASSAGE for article in answer["articles"])
    line: Any = knowledge.search("hedgehog word")
    assert "line" in [article["id"] for article in line["articles"]]
    assert all(len(article["passage"]) <= MAX_PASSAGE for article in line["articles"])


def test_a_changed_article_is_indexed_again(tmp_path: Path):
    knowledge = own(tmp_path, opening="# Opening hours\n\nMonday to Friday.")
    assert found(knowledge, "friday") == ["opening"]
    own(tmp_path, opening="# Opening hours\n\nMonday to Saturday.")
    assert (found(knowledge, "friday"), found(knowledge, "saturday")) == ([], ["opening"])
    own(tmp_path, parking="# Parking\n\nBehind the house on Saturday.")
    assert set(found(knowledge, "saturday")) == {"opening", "parking"}
    (tmp_path / "articles" / "opening.md").unlink()
    assert found(knowledge, "saturday") == ["parking"]
    (tmp_path / "articles" / "parking.md").rename(tmp_path / "articles" / "cars.md")
    assert found(knowledge, "saturday") == ["cars"]


def test_the_index_is_rebuilt_only_for_changed_articles(tmp_path: Path):
    knowledge = own(tmp_path, opening="# Opening hours\n\nMonday to Friday.")
    knowledge.search("friday")
    (index,) = (tmp_path / "data").iterdir()
    made = index.stat().st_ino
    os.utime(tmp_path / "articles" / "opening.md", ns=(1, 1))  # touched, not changed
    assert found(Knowledge(tmp_path / "data", path=tmp_path / "articles"), "friday") == ["opening"]
    assert found(knowledge, "friday") == ["opening"]
    assert index.stat().st_ino == made
    Knowledge(tmp_path / "data").search("refund")
    assert index.name != "knowledge.sqlite"
    assert {file.name for file in (tmp_path / "data").iterdir()} == {index.name, "knowledge.sqlite"}


@pytest.mark.parametrize("damage", [b"", b"noise" * 1000, None])
def test_a_damaged_index_is_rebuilt(tmp_path: Path, damage: bytes | None):
    knowledge = Knowledge(tmp_path)
    index = tmp_path / "knowledge.sqlite"
    knowledge.search("refund")
    if damage is None:
        with closing(sqlite3.connect(index)) as connection, connection:
            connection.execute("UPDATE fingerprint SET value = 'of another version'")
            connection.execute("DELETE FROM passages")
    else:
        index.write_bytes(damage)
    assert found(knowledge, "I forgot my password") == ["password"]


def folder_of(path: Path, name: str, text: bytes) -> Path:
    path.mkdir()
    (path / name).write_bytes(text)
    return path


def test_an_unusable_folder_is_a_typed_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    latin = folder_of(tmp_path / "a", "latin.md", b"caf\xe9")
    huge = folder_of(tmp_path / "b", "huge.md", b"x" * (MAX_BYTES + 1))
    for knowledge, error, says in (
        (Knowledge(tmp_path, path=tmp_path / "none"), StoreUnavailable, "'none' is not a folder"),
        (Knowledge(tmp_path, path=latin), StoreCorrupt, "'latin.md' is not UTF-8"),
        (Knowledge(tmp_path, path=huge), StoreUnavailable, "'huge.md' has more than"),
        (Knowledge(tmp_path / "file"), StoreUnavailable, "'knowledge.sqlite' cannot be reached"),
    ):
        with pytest.raises(StoreError) as caught:
            knowledge.search("refund")
        assert type(caught.value) is error
        assert says in str(caught.value)
        assert str(tmp_path) not in str(caught.value)


def test_a_folder_with_too_many_articles_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_FILES", 3)
    with pytest.raises(StoreUnavailable, match="the limit is 3"):
        Knowledge(tmp_path).search("refund")


def test_a_file_deleted_while_it_is_read_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def gone(_: Path) -> tuple[int, int]:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(module, "_looks", gone)
    with pytest.raises(StoreUnavailable, match="No such file"):
        Knowledge(tmp_path).search("refund")


def test_an_empty_folder_finds_nothing(tmp_path: Path):
    assert own(tmp_path).search("refund")["count"] == 0


def test_concurrent_threads_can_create_the_index(tmp_path: Path):
    together, answers = threading.Barrier(6), list[list[str]]()

    def look() -> None:
        together.wait()
        answers.append(found(Knowledge(tmp_path), "I forgot my password"))

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [["password"]] * 6
    assert [file.name for file in tmp_path.iterdir()] == ["knowledge.sqlite"]
