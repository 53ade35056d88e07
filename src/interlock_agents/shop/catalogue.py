"""Product search in a SQLite file: the catalogue of the demo shop, or your own table."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import heapq
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from interlock.errors import StoreCorrupt
from interlock_agents.shop.databases import build, reading
from interlock_agents.shop.products import Product, products
from interlock_agents.shop.words import ASKING, ATTRIBUTES, ORDINARY, STOP, beginning, content, forms, words

__all__ = ["MAX_ROWS", "TABLE", "Catalogue"]

MAX_ROWS = 5
"""How many products one result has. `count` is the number of all matches."""

TABLE = "products"
"""The table, or view, of a file of your own. Its columns:

| column | type | what |
|---|---|---|
| sku | TEXT | the article number |
| name | TEXT | the name |
| category | TEXT | the category |
| price_cents | INTEGER | the price in hundredths of the currency |
| currency | TEXT | EUR, USD, ... |
| stock | INTEGER | the number in stock |
"""

_COLUMNS = tuple(field.name for field in dataclasses.fields(Product))
_WHAT = "Catalogue"

# SQLite filters out rows that cannot match. Its lower() handles ASCII only, so other rows are kept.
_SELECT = f"""
SELECT {", ".join(_COLUMNS)}
FROM (SELECT *, ifnull(sku, '') || ' ' || ifnull(name, '') || ' ' || ifnull(category, '') AS words_ FROM {TABLE})
WHERE 1"""  # noqa: S608 - names of ours
_BEGINS = " AND (instr(lower(words_), ?) OR length(words_) < length(CAST(words_ AS BLOB)))"

_Row = tuple[Any, ...]
_WITH, _WITHOUT = "with", "without"
_QUALIFIES = frozenset({_WITH, _WITHOUT, "for", "in"})  # the noun of a product comes before these
_SPELLED = 4  # the least number of letters of a word whose spelling is corrected
_FEW = 5  # letters of a word in which one may be missing or too many, and not two
_SHORT = 2  # words of a name that is not complete
_ALIKE = 0.8  # the similarity of a misspelled word and its correction

SYNONYMS = {
    "big": "large",
    "biro": "ballpoint",
    "bookcase": "bookshelf",
    "carpet": "rug",
    "colored": "coloured",
    "flowerpot": "pot",
    "gray": "grey",
    "lightbulb": "bulb",
    "little": "small",
    "notepad": "notebook",
    "noticeboard": "pinboard",
    "shelving": "shelf",
}
"""Replacements for words that the catalogue does not have. A result lists them in `read_as`."""

_WORDS = (
    "words of the name, the category or the SKU of a product; all of them must match. "
    "Empty: all products that cost so much, or how many each category has"
)
_PREFER = "words of which as many as possible must match besides: a product that one in another colour or size is looked for"
Query = Annotated[str, Field(max_length=500, description=_WORDS)]
Prefer = Annotated[str, Field(max_length=500, description=_PREFER)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Order = Literal["best", "cheapest", "dearest"]


class Catalogue:
    """Searches products. The demo catalogue is created at first use; your own file is opened read-only."""

    def __init__(self, folder: Path, *, path: Path | None = None) -> None:
        self._path = path or folder / "catalogue.sqlite"
        self._is_demo = path is None

    def query(
        self,
        query: Query,
        prefer: Prefer = "",
        min_price: Price | None = None,
        max_price: Price | None = None,
        order: Order = "best",
    ) -> dict[str, JsonValue]:
        """Look products up: price, currency and stock of those whose name, category or SKU has every word of the query.

        Where none has, `unknown` names the words that no product has, and `nearest` has the products with most of the words, says
        which words they are `without`, and is left out if these include the word for what the product is.
        """
        is_priced = _priced(min_price, max_price)
        if not query.strip() and is_priced is _any_price and order == "best":
            categories = Counter(str(row[2] or "") for row in self._rows())
            return {"query": query, "count": categories.total(), "categories": dict(categories), "products": []}
        asked = content(query)
        search = _Search([], [], [], is_priced, order)
        # "Stock" may be part of a name; otherwise it is part of the question.
        for wanted in dict.fromkeys((tuple(asked), tuple(word for word in asked if word not in ASKING))):
            search = _Search([forms(word) for word in wanted], words(query), content(prefer), is_priced, order)
            found = search.of(self._rows(wanted)) if wanted or not query.strip() else []
            kind = self._kind(wanted[-1]) if found and wanted and not prefer else None
            if kind is not None and all(row[2] != kind for row in found):  # a black desk lamp is no black desk
                return {
                    "query": query,
                    "count": 0,
                    "in_stock": 0,
                    "products": [],
                    "nearest": {"kind": kind, "without": [], **self._answer(found, search)},
                }
            if found:
                return {"query": query, **self._answer(found, search)}
        return {"query": query, **self._instead([word for word in asked if word not in ASKING], search)}

    def _kind(self, word: str) -> str | None:
        """Return the category with this name, or None."""
        names = {str(row[2] or "") for row in self._rows()}
        return next((name for name in names if len(words(name)) == 1 and not _known([name]).isdisjoint(forms(word))), None)

    def _instead(self, asked: list[str], search: _Search) -> dict[str, JsonValue]:
        """Search again if no product has all words: with other spellings, or with fewer words."""
        rows = self._rows() if asked else []
        vocabulary = _known([text for row in rows for text in row[:3]])
        asked, written = _rewritten(asked, vocabulary)
        asked, read_as = _read(asked, vocabulary)
        read_as = {**written, **read_as}
        said = [read_as.get(word, word) for word in search.said]
        search = dataclasses.replace(search, wanted=[forms(word) for word in asked], said=said)
        found = search.of(rows)
        answer = self._answer(found, search)
        nearest = None if found or not asked else self._nearest(rows, asked, search)
        if read_as and (found or nearest):
            answer["read_as"] = {**read_as}
        unknown: list[JsonValue] = [word for word in asked if vocabulary.isdisjoint(forms(word))]
        if unknown:
            answer["unknown"] = unknown
        return answer if nearest is None else {**answer, "nearest": nearest}

    def _answer(self, found: list[_Row], search: _Search) -> dict[str, JsonValue]:
        best = heapq.nsmallest(MAX_ROWS, found, key=search.rank)
        stock = sum(row[5] for row in found if isinstance(row[5], int))
        return {"count": len(found), "in_stock": stock, "products": [_shown(row, self._path.name) for row in best]}

    def _nearest(self, rows: list[_Row], asked: Sequence[str], search: _Search) -> JsonValue | None:
        """Return the products with most of the words, all lacking the same ones, or those outside the price range."""
        beyond = dataclasses.replace(search, is_priced=_any_price, order="cheapest" if search.order == "best" else search.order)
        found = beyond.of(rows)
        if found:
            return {"without": [], **self._answer(found, beyond)}
        missing = {id(row): beyond.missing(row) for row in rows}
        head = _head(asked, search.said)
        groups = {lacks for lacks in missing.values() if (head not in lacks if head is not None else len(lacks) * 2 <= len(asked))}
        if not groups or search.prefer:
            return None
        categories = {form for row in rows for form in _known(row[2:3])}
        kinds = {at for at, word in enumerate(beyond.wanted) if not categories.isdisjoint(word)}
        # Of two words that exclude each other, drop the one that is closer to the noun.
        lacks = min(groups, key=lambda one: (len(one), len(one & kinds), [-at for at in sorted(one)]))
        wanted = [word for at, word in enumerate(beyond.wanted) if at not in lacks]
        part = dataclasses.replace(beyond, wanted=wanted, order=search.order)
        kept = part.meant([row for row in rows if missing[id(row)] == lacks])
        nearest: dict[str, JsonValue] = {"without": [asked[at] for at in sorted(lacks)], **self._answer(kept, part)}
        kind = self._kind([word for at, word in enumerate(asked) if at not in lacks][-1])
        return {"kind": kind, **nearest} if kind is not None and all(row[2] != kind for row in kept) else nearest

    def _rows(self, asked: Sequence[str] = ()) -> list[_Row]:
        """Read the products, without most of those that lack a word."""
        if self._is_demo and not self._path.exists():
            build(self._path, what=_WHAT, fill=_fill)
        with reading(self._path, what=_WHAT) as connection:
            return connection.execute(_SELECT + _BEGINS * len(asked), [beginning(word) for word in asked]).fetchall()


@dataclasses.dataclass(frozen=True)
class _Search:
    """The words, the price range and the order of a search."""

    wanted: Sequence[frozenset[str]]
    said: Sequence[str]
    prefer: Sequence[str]
    is_priced: Callable[[_Row], bool]
    order: Order

    def of(self, rows: Iterable[_Row]) -> list[_Row]:
        """Return the rows that have every word and, of these, those with most of the preferred words."""
        found = [row for row in self.meant([row for row in rows if not self.missing(row)]) if self.is_priced(row)]
        if self.order != "best":  # a bar stool is in the category of chairs, but is not the cheapest chair
            found = [row for row in found if all(not _known(row[1:2]).isdisjoint(word) for word in self.wanted)] or found
        if not self.prefer:
            return found
        head = _head(self.prefer, self.prefer)
        if len(self.prefer) <= _SHORT and head is not None:  # "desk lamps": they are lamps
            found = [row for row in found if not _known(row[1:3]).isdisjoint(forms(self.prefer[head]))]
        shared = {id(row): sum(not _known(row[1:3]).isdisjoint(forms(word)) for word in self.prefer) for row in found}
        if _WITHOUT not in self.said:  # someone who looks at a chair with armrests wants another one with armrests
            alike = [row for row in found if (_WITHOUT in _known(row[1:2])) == (_WITHOUT in self.prefer)]
            found = alike or found
        # At most as many words may differ as the query has, or half of them, and at least one must match.
        least = min(len(self.prefer) - len(self.wanted), (len(self.prefer) + 1) // 2)
        most = max([1, least, *shared.values()])
        return [row for row in found if shared[id(row)] == most]

    def meant(self, found: list[_Row]) -> list[_Row]:
        """Remove products whose name contains the name of another category: a desk lamp is not a desk."""
        # A part of an article number matches only if no name or category has the word.
        found = [row for row in found if all(not _known(row[1:3]).isdisjoint(word) for word in self.wanted)] or found
        for word in self.wanted:
            of_category = [row for row in found if not _known(row[2:3]).isdisjoint(word)]
            found = of_category or found
        return found

    def missing(self, row: _Row) -> frozenset[int]:
        """Return the positions of the words that a row lacks. A product "without armrests" lacks "with armrests"."""
        known = _known(row[:3])
        if _WITH in self.said and _WITHOUT not in self.said and _WITHOUT in known:
            lacks, name = self.said[self.said.index(_WITH) + 1 :], words(str(row[1]))
            if not _known(lacks).isdisjoint(_known(name[name.index(_WITHOUT) + 1 :] if _WITHOUT in name else name)):
                return frozenset(range(len(self.wanted) + 1))
        return frozenset(at for at, word in enumerate(self.wanted) if known.isdisjoint(word))

    def rank(self, row: _Row) -> tuple[Any, ...]:
        """Return the sort key: price if requested, then matches in name and category, then the shortest name."""
        sku, name, category = (str(text or "") for text in row[:3])
        hits = sum(not known.isdisjoint(word) for known in (_known([name]), _known([category])) for word in self.wanted)
        cents = row[3] if isinstance(row[3], int) else 0
        price = {"best": 0, "cheapest": cents, "dearest": -cents}[self.order]
        return price, -hits, len(words(name)), name, sku


def _any_price(_row: _Row) -> bool:
    return True


def _priced(least: float | None, most: float | None) -> Callable[[_Row], bool]:
    """Return a filter for a price range."""
    if least is None and most is None:
        return _any_price
    low, high = (least or 0) * 100, float("inf") if most is None else most * 100
    return lambda row: isinstance(row[3], int) and low <= row[3] <= high


def _rewritten(asked: Sequence[str], vocabulary: set[str]) -> tuple[list[str], dict[str, str]]:
    """Join or split words as the catalogue spells them: "pin boards" become "pinboards", "desklamp" becomes "desk lamp"."""
    found: list[str] = []
    read_as: dict[str, str] = {}
    for word in asked:
        whole, is_known = f"{found[-1] if found else ''}{word}", not vocabulary.isdisjoint(forms(word))
        before_is_known = bool(found) and not vocabulary.isdisjoint(forms(found[-1]))
        if found and not (is_known and before_is_known) and not vocabulary.isdisjoint(forms(whole)):
            read_as[f"{found[-1]} {word}"] = found[-1] = min(forms(whole) & vocabulary, key=len)
            continue
        cut = next((at for at in range(3, len(word) - 2) if not is_known and _both(word[:at], word[at:], vocabulary)), 0)
        if cut:
            read_as[word] = f"{word[:cut]} {word[cut:]}"
        found += [word[:cut], word[cut:]] if cut else [word]
    return found, read_as


def _both(first: str, second: str, vocabulary: set[str]) -> bool:
    return first in vocabulary and not vocabulary.isdisjoint(forms(second))


def _read(asked: list[str], vocabulary: set[str]) -> tuple[list[str], dict[str, str]]:
    """Replace unknown words by a synonym or by the only similar word of the catalogue."""
    read_as: dict[str, str] = {}
    for word in asked:
        if not vocabulary.isdisjoint(forms(word)) or word in ASKING:
            continue
        synonym = next((SYNONYMS[form] for form in forms(word) if SYNONYMS.get(form) in vocabulary), None)
        one = {min(forms(other), key=len) for other in _alike(word, vocabulary)}
        if synonym or len(one) == 1:
            read_as[word] = synonym or one.pop()
    return [read_as.get(word, word) for word in asked], read_as


def _head(asked: Sequence[str], said: Sequence[str]) -> int | None:
    """Return the position of the noun, such as "chair" in "grey office chair with wheels", or None."""
    end = next((at for at, word in enumerate(said) if word in _QUALIFIES), len(said))
    names = [at for at, word in enumerate(asked) if word.isalpha() and word not in ATTRIBUTES]
    return max((at for at in names if asked[at] in said[:end]), default=names[-1] if names else None)


def _alike(word: str, vocabulary: set[str]) -> list[str]:
    """Return similar words for a misspelled one. Its first letter is assumed to be right."""
    if not word.isalpha() or len(word) < _SPELLED or word in ORDINARY:
        return []
    known = [other for other in vocabulary if other[0] == word[0] and len(other) >= _SPELLED and other not in STOP]
    if len(word) <= _FEW:  # "cars" are not chairs
        known = [other for other in known if abs(len(other) - len(word)) <= 1]
    return difflib.get_close_matches(word, known, n=2, cutoff=_ALIKE)


def _known(texts: Sequence[object]) -> set[str]:
    """Return every form of every word of these texts."""
    return {form for text in texts for form in _forms_in(str(text or ""))}


@functools.lru_cache(maxsize=8192)
def _forms_in(text: str) -> frozenset[str]:
    return frozenset(form for word in words(text) for form in forms(word))


def _shown(row: _Row, file: str) -> JsonValue:
    sku, name, category, cents, currency, stock = row
    if not isinstance(sku, str) or not isinstance(name, str) or not isinstance(cents, int) or not isinstance(stock, int):
        needed = "'sku' and 'name' have to be text, 'price_cents' and 'stock' whole numbers"
        raise StoreCorrupt(f"{_WHAT} '{file}' has a product '{sku}' that cannot be used: {needed}.")
    price = f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"
    return {"sku": sku, "name": name, "category": str(category or ""), "price": price, "currency": str(currency or ""), "stock": stock}


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"CREATE TABLE {TABLE} (sku TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL,"
        " price_cents INTEGER NOT NULL, currency TEXT NOT NULL, stock INTEGER NOT NULL)"
    )
    insert = f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - a name of ours
    connection.executemany(insert, (dataclasses.astuple(product) for product in products()))
