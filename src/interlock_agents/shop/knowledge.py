"""Full-text search in folders of Markdown files, with an index in SQLite: the folders of the demo shop, or your own."""

from __future__ import annotations

import hashlib
import math
import re
import sqlite3
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, JsonValue

from interlock.errors import StoreCorrupt, StoreUnavailable
from interlock_agents.shop.databases import build, reading, translated
from interlock_agents.shop.words import DEFINING, content

__all__ = ["ARTICLES", "DOCUMENTS", "MAX_ARTICLES", "MAX_BYTES", "MAX_FILES", "MAX_PASSAGE", "Collection", "Knowledge"]

MAX_ARTICLES = 3
"""How many articles one result has. `count` is the number of all matches."""

MAX_PASSAGE = 800
"""How many characters of an article one result has."""

MAX_FILES = 10_000
"""How many articles a folder may have."""

MAX_BYTES = 1024 * 1024
"""How large an article may be."""

_FORMAT = b"1"  # version of the index; another one is rebuilt
_MAX_WORDS = 16  # of a query
_ENOUGH, _ENOUGH_WEIGHED = 0.5, 0.65  # the part of the total weight of the words that an article must have
_SEVERAL = 3  # words that are specific enough without one in a title
_RARE = 2  # a word is rare if at most this many articles have it
_TITLE, _TEXT = 4.0, 1.0  # weights of a word in the title and in the text
_HEADING = re.compile(r"^#{1,6}\s+(?=\S)")

# Titles with all words come first, because bm25 ignores a word that most texts have.
_RANKED = f"""
SELECT article, title, text, rowid IN (SELECT rowid FROM passages WHERE passages MATCH ?) AS named FROM passages WHERE passages MATCH ?
ORDER BY named DESC, bm25(passages, {_TITLE}, {_TEXT}), rowid"""  # noqa: S608 - numbers of ours

Query = Annotated[str, Field(max_length=2000, description="what to find out, in a few words")]
Titled = Annotated[bool, Field(description="whether to find only documents that are about the query by their title")]
_Seen = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A kind of texts. A result lists them under the plural of `one`."""

    index: str
    """The name of the index file."""
    what: str
    """The name of the collection in error messages."""
    one: str
    """The name of one text."""
    description: str
    """The description of the search tool for a model."""
    demo: Path
    """The default folder."""
    weighs_words: bool = False
    """Whether rare words count more. For customers all words count the same."""
    relevance: float = 0.0
    """The least part of a query, weighted by rarity, that a text must have. Above 0 one of the words must be in the
    title, unless the text has all of them."""


ARTICLES = Collection(
    index="knowledge",
    what="Knowledge base",
    one="article",
    description="Search the help articles of the shop: the title and the best passage of those that have most words of the query.",
    demo=Path(__file__).parent / "articles",
    relevance=0.5,
)
"""The help articles for customers of the shop."""

DOCUMENTS = Collection(
    index="documents",
    what="Document folder",
    one="document",
    description="Search the company's handbook of data (metrics, tables, calendar, policies): the title and the best passage of those "
    "documents that have most words of the query.",
    demo=Path(__file__).parent / "documents",
    weighs_words=True,
)
"""The handbook for analysts of the company."""


@dataclass(frozen=True)
class _Article:
    id: str
    title: str
    passages: tuple[str, ...]


class Knowledge:
    """Searches a collection. The index is created at first use, and again when a text has changed."""

    def __init__(self, folder: Path, *, path: Path | None = None, collection: Collection = ARTICLES) -> None:
        self._articles = path or collection.demo
        self._collection = collection
        # Each folder has its own index, so that using two folders alternately does not rebuild it every time.
        mark = "" if path is None else f"-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
        self._index = folder / f"{collection.index}{mark}.sqlite"
        self._known: tuple[_Seen, str] | None = None

    def search(self, query: Query) -> dict[str, JsonValue]:
        """Search: the title and the best passage of those texts that have most words of the query."""
        return self.look_up(query)

    def look_up(self, query: Query, titled: Titled = False) -> dict[str, JsonValue]:  # noqa: FBT002 - an argument of a tool
        """Search as `search` does, or only for texts whose title says that they are about it."""
        asked = self._asked(query)[:_MAX_WORDS]
        count, found = self._look(asked, titled=titled) if asked else (0, [])
        return {"query": query, "count": count, f"{self._collection.one}s": found}

    def _asked(self, query: str) -> list[str]:
        """Return the words to search for, without those that ask for a meaning: being rare, they would outweigh the others."""
        asked = content(query)
        return [word for word in asked if word not in DEFINING] or asked if self._collection.weighs_words else asked

    def _look(self, asked: Sequence[str], *, titled: bool) -> tuple[int, list[JsonValue]]:
        what = self._collection.what
        with translated(self._articles, what):
            fingerprint = self._fingerprint()
        if not self._is_current(fingerprint):
            build(self._index, what=what, fill=lambda connection: _fill(connection, fingerprint, self._read()))
        with reading(self._index, what=what) as connection:
            return _found(connection, asked, self._collection, is_titled=titled)

    def _fingerprint(self) -> str:
        """Return a digest of the folder's content. The files are read only if the time or size of one has changed."""
        seen = tuple((str(file), *_looks(file)) for file in self._files())
        if self._known is None or self._known[0] != seen:
            made = hashlib.sha256(_FORMAT)
            for article in self._read():
                made.update(repr(article).encode())
            self._known = (seen, made.hexdigest())
        return self._known[1]

    def _is_current(self, fingerprint: str) -> bool:
        """Return whether the index matches the articles. A damaged index does not, and is rebuilt."""
        if not self._index.exists():
            return False
        try:
            with reading(self._index, what=self._collection.what) as connection:
                return connection.execute("SELECT value FROM fingerprint").fetchone() == (fingerprint,)
        except StoreCorrupt:
            return False

    def _files(self) -> list[Path]:
        folder, kind = self._articles, self._collection
        if not folder.is_dir():
            raise StoreUnavailable(f"{kind.what} '{folder.name}' is not a folder. Name one with Markdown files in it.")
        files = sorted(file for file in folder.rglob("*.md") if file.is_file())
        if len(files) > MAX_FILES:
            raise StoreUnavailable(f"{kind.what} '{folder.name}' has {len(files):,} {kind.one}s; the limit is {MAX_FILES:,}.")
        return files

    def _read(self) -> Iterator[_Article]:
        one = self._collection.one.capitalize()
        for file in self._files():
            if file.stat().st_size > MAX_BYTES:
                raise StoreUnavailable(f"{one} '{file.name}' has more than {MAX_BYTES:,} bytes.")
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise StoreCorrupt(f"{one} '{file.name}' is not UTF-8.") from error
            yield _article(file.relative_to(self._articles).with_suffix("").as_posix(), text)


def _found(connection: sqlite3.Connection, asked: Sequence[str], collection: Collection, *, is_titled: bool) -> tuple[int, list[JsonValue]]:
    """Return the number of relevant articles and the best of them, each with its best passage and the words that it lacks."""
    # Words are letters and digits only, and quoted, so that FTS5 never parses them as syntax.
    quoted, weighs = [f'"{word}"' for word in asked], collection.weighs_words
    having = [_articles(connection, word) for word in quoted]
    ((total,),) = connection.execute("SELECT COUNT(DISTINCT article) FROM passages")
    scores = _relevant(having, total, weighs=weighs)
    if is_titled:
        scores = {article: score for article, score in scores.items() if article in _in_title(connection, quoted, having, total)}
    if collection.relevance:
        titled = _articles(connection, f"title : ({' OR '.join(quoted)})")
        scores = {article: scores[article] for article in scores.keys() & _to_the_point(having, total, titled, collection.relevance)}
    found: dict[str, tuple[float, int, JsonValue]] = {}
    named = f"title : ({' AND '.join(quoted)})"
    for article, title, passage, is_named in connection.execute(_RANKED, (named, " OR ".join(quoted))) if scores else ():
        if article in scores and article not in found:
            extra = len(title) if is_named and weighs else 0  # of two titles that have all words, prefer the shorter one
            lacks: list[JsonValue] = [word for word, articles in zip(asked, having, strict=True) if article not in articles]
            found[article] = (
                math.inf if is_named else scores[article] * weighs,
                extra,
                {"id": article, "title": title, "passage": passage, "lacks": lacks},
            )
    ordered = sorted(found.values(), key=lambda one: (-one[0], one[1]))  # the sort is stable: equal scores keep their rank
    return len(scores), [article for *_, article in ordered[:MAX_ARTICLES]]


def _relevant(having: Sequence[set[str]], total: int, *, weighs: bool) -> dict[str, float]:
    """Return the scores of the articles that have enough of the words.

    With weights, rare words count more, and a word that no article has counts most. Otherwise an article would match
    "purple table" because it has the word "table", as half of them do.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    weights = 0.0
    for articles in having:
        weight = math.log((total + 1) / (len(articles) + 0.5)) if weighs else 1.0
        weights += weight
        for article in articles:
            scores[article] += weight
    return {article: score for article, score in scores.items() if score >= weights * (_ENOUGH_WEIGHED if weighs else _ENOUGH)}


def _in_title(connection: sqlite3.Connection, quoted: Sequence[str], having: Sequence[set[str]], total: int) -> set[str]:
    """Return the articles whose title has half of the query, weighted by rarity.

    A page that has all of several words, one of them rare, counts too, whatever its title.
    """
    weights = [math.log((total + 1) / (len(articles) + 0.5)) for articles in having]
    met: defaultdict[str, float] = defaultdict(float)
    for word, weight in zip(quoted, weights, strict=True):
        for article in _articles(connection, f"title : {word}"):
            met[article] += weight
    is_telling = len(having) >= _SEVERAL and any(len(articles) <= _RARE for articles in having)
    complete = set[str].intersection(*having) if is_telling else set[str]()
    return {article for article, weight in met.items() if weight >= sum(weights) / 2} | complete


def _articles(connection: sqlite3.Connection, match: str) -> set[str]:
    return {article for (article,) in connection.execute("SELECT DISTINCT article FROM passages WHERE passages MATCH ?", (match,))}


def _to_the_point(having: Sequence[set[str]], total: int, titled: set[str], relevance: float) -> set[str]:
    """Return the articles that have all words, and those with enough of them, weighted by rarity, and one in the title."""
    weights = [math.log1p(total / max(len(articles), 1)) for articles in having]
    met = {one: sum(weight for weight, articles in zip(weights, having, strict=True) if one in articles) for one in titled}
    near = {one for one, weight in met.items() if weight >= relevance * sum(weights)}
    complete = {one for one in having[0] if all(one in others for others in having)}
    # A single word that many texts have is not specific.
    return near if len(having) == 1 and len(complete) > MAX_ARTICLES else near | complete


def _looks(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _article(name: str, text: str) -> _Article:
    """Parse an article: the title is its first line if that is a heading, else the name of the file."""
    first, _, rest = text.strip().partition("\n")
    if _HEADING.match(first):
        return _Article(name, _HEADING.sub("", first).strip(), _passages(rest))
    return _Article(name, name.rpartition("/")[2].replace("-", " ").replace("_", " "), _passages(text))


def _passages(text: str) -> tuple[str, ...]:
    """Join paragraphs into passages up to the maximum length. A heading starts a new passage."""
    passages: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        whole = " ".join(paragraph.split())
        for part in textwrap.wrap(whole, MAX_PASSAGE):
            if passages and not _HEADING.match(part) and len(passages[-1]) + len(part) < MAX_PASSAGE:
                passages[-1] += f"\n{part}"
            else:
                passages.append(part)
    return tuple(passages) or ("",)


def _fill(connection: sqlite3.Connection, fingerprint: str, articles: Iterator[_Article]) -> None:
    connection.execute("CREATE TABLE fingerprint (value TEXT NOT NULL)")
    connection.execute("INSERT INTO fingerprint VALUES (?)", (fingerprint,))
    connection.execute(
        "CREATE VIRTUAL TABLE passages USING fts5(title, text, article UNINDEXED, tokenize = 'porter unicode61 remove_diacritics 2')"
    )
    rows = ((article.title, passage, article.id) for article in articles for passage in article.passages)
    connection.executemany("INSERT INTO passages VALUES (?, ?, ?)", rows)
