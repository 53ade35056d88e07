"""What people call the folder of a side is the root of its worker's files; nothing else of a text is touched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.engine import EngineName
from interlock_agents.gateway.paths import in_scope
from tests.support.gateway import app, make_files

TABLE = {
    "ls /docs now": "ls / now",
    "/docs": "/",
    "/docs/": "/",
    "/docs/a.md": "/a.md",
    "read /docs/inner/more.md": "read /inner/more.md",
    "/docs/docs/a": "/docs/a",
    "/docs/docs": "/docs",
    "https://h/docs/x": "https://h/docs/x",
    "http://docs/docs/x": "http://docs/docs/x",
    "file:///docs/x": "file:///docs/x",
    "see=https://h/docs": "see=https://h/docs",
    "/docs/to=https://h/docs": "/docs/to=https://h/docs",
    "/x/docs/a.md": "/x/docs/a.md",
    "x/docs/a.md": "x/docs/a.md",
    "./docs/a.md": "./docs/a.md",
    "../docs/a.md": "../docs/a.md",
    "docs/a.md": "docs/a.md",
    "/docsX": "/docsX",
    "/docs_old/a": "/docs_old/a",
    "/docs-old/a": "/docs-old/a",
    "/docs.md": "/docs.md",
    "/DOCS/a.md": "/DOCS/a.md",
    "/admin/a.md": "/admin/a.md",
    "//docs/a.md": "//docs/a.md",
    "/docs/../admin/x": "/../admin/x",
    "What is in /docs?": "What is in /?",
    "Look into /docs.": "Look into /.",
    "Look into /docs/.": "Look into /.",
    "Look into /docs, please": "Look into /, please",
    "in /docs: all": "in /: all",
    "go to /docs!": "go to /!",
    "first /docs; then": "first /; then",
    "read '/docs/a.md'": "read '/a.md'",
    'read "/docs/a.md".': 'read "/a.md".',
    "read `/docs/a.md`": "read `/a.md`",
    "ls '/docs'": "ls '/'",
    "(/docs/a.md)": "(/a.md)",
    "[/docs] {/docs} </docs>": "[/] {/} </>",
    "([`/docs/a.md`])": "([`/a.md`])",
    "path=/docs/a.md": "path=/a.md",
    'path="/docs/a.md"': 'path="/a.md"',
    "/docs/a.md /docs/b.md\n\t/docs/c.md": "/a.md /b.md\n\t/c.md",
    "read “/docs/a.md” and \u2018/docs/b.md\u2019": "read “/a.md” and \u2018/b.md\u2019",
    "„/docs/a.md“ «/docs» 「/docs/x」": "„/a.md“ «/» 「/x」",
    "[the page](/docs/a.md)": "[the page](/a.md)",
    "see [/docs/a.md](/docs/a.md).": "see [/a.md](/a.md).",
    "[out](https://h/docs/a.md) [in](/docs/a.md)": "[out](https://h/docs/a.md) [in](/a.md)",
    "/docs/a.md,/docs/b.md;/docs": "/a.md,/b.md;/",
    "/docs/a.md,https://h/docs/b,/docs/c": "/a.md,https://h/docs/b,/docs/c",
    '"https://h/docs",/docs/c': '"https://h/docs",/c',
    "- /docs/a.md\n- /docs/b.md\n1. /docs": "- /a.md\n- /b.md\n1. /",
    "|/docs/a.md|/docs|": "|/a.md|/|",
    "/docs... or /docs…": "/... or /…",
    "(in /docs.)": "(in /.)",
    "read(/docs/a.md)": "read(/a.md)",
    "f(x)/docs/a.md": "f(x)/docs/a.md",
    "**/docs/a.md": "**/docs/a.md",
    "C:/docs/a.md": "C:/docs/a.md",
    "": "",
    "no path at all": "no path at all",
}


@pytest.mark.parametrize(("text", "normalised"), TABLE.items())
def test_only_path_words_that_start_with_the_prefix_are_normalised(text: str, normalised: str):
    assert in_scope(text, "docs") == normalised


@pytest.mark.parametrize(("text", "normalised"), TABLE.items())
def test_the_prefix_of_the_admin_is_normalised(text: str, normalised: str):
    def swapped(words: str) -> str:
        return words.replace("admin", "\0").replace("docs", "admin").replace("\0", "docs")

    assert in_scope(swapped(text), "admin") == swapped(normalised)


PARTS = st.sampled_from(
    ["/docs", "docs", "/admin", "/", "//", ".", "..", "a", "b.md", " ", "\n", "\t", '"', "'", "`", "(", ")", "[", "]", "=", ",", "://", "X"]
)
TEXTS = st.one_of(st.text(), st.lists(PARTS, max_size=14).map("".join))
PREFIX = "/docs"


@given(text=TEXTS)
@example(text="/docs/docs/x")
@example(text='/docs"/docs')
def test_at_most_one_prefix_of_each_word_is_removed(text: str):
    before, after = re.split(r"(\s+)", text), re.split(r"(\s+)", in_scope(text, "docs"))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        # Quotes may separate several paths without a space: each of them loses one prefix, and a prefix inside a path stays.
        assert old.count(PREFIX) - new.count(PREFIX) <= len(re.findall(rf"(?<![\w/.]){PREFIX}", old))
        if old != new and old.count(PREFIX) <= 1:
            assert old.count(PREFIX) == 1
            at = old.index(PREFIX)
            rest = old[at + len(PREFIX) :]
            assert new == f"{old[:at]}/{rest.removeprefix('/')}"
            assert not rest[:1].isalnum()
            assert not re.search(r"[\w/.]$", old[:at])


@given(text=TEXTS)
def test_text_without_the_prefix_is_unchanged(text: str):
    other = text.replace("docs", "dogs")
    assert in_scope(other, "docs") == other


ADDRESSES = st.lists(
    st.sampled_from(["/docs", "docs", "/admin", "/", "//", ".", "..", "a", "b.md", "=", "://", "X", "?", "#"]), max_size=14
).map("".join)


@given(before=ADDRESSES, after=ADDRESSES, scheme=st.sampled_from(["https", "http", "file", "s3", "x"]))
def test_urls_are_unchanged(before: str, after: str, scheme: str):
    word = re.sub(r"\s+", "", f"{before}{scheme}://{after}")
    assert in_scope(f"see {word} now", "docs") == f"see {word} now"


@given(words=st.lists(st.sampled_from([word for word in TABLE if "/docs/docs" not in word]), max_size=5))
def test_twice_is_the_same_as_once(words: list[str]):
    once = in_scope(" ".join(words), "docs")
    assert in_scope(once, "docs") == once


async def test_each_worker_gets_paths_of_its_own_root(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    async with app(engine, tmp_path, gateway_path=base) as running:
        admin = await running.run("gateway", "Read /admin/notes.md", role="admin")
        assert admin.output.startswith("/notes.md:\n\n# Notes")
        bridged = await running.run("gateway", "Read /docs/welcome.md", role="admin")
        user = await running.run("gateway", "Read /docs/welcome.md", role="user")
        assert admin.state["admin_input"] == "Read /admin/notes.md"
        assert bridged.state["bridge_admin_input"] == "Read /docs/welcome.md"
        assert bridged.output == user.output
        assert user.output.startswith("/welcome.md:\n\n# Welcome")
        other = await running.run("gateway", "Read /admin/notes.md", role="user")
        assert other.output == "That cannot be done. There is no file '/admin/notes.md' here; 'list /' shows what there is."
