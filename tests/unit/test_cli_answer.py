"""What a person reads of an answer: all of it, in lines that fit, however it is split into chunks."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from interlock.cli.answer import Answer, print_answer

LETTERS = st.text(st.sampled_from("aB1 .,-:|\\\n\t\x1b\r\u2028é日\u0301\U0001f600"), max_size=60)
WORD = st.text(st.sampled_from("abcXYZ0123é日"), min_size=1, max_size=9)
SENTENCE = st.lists(WORD, min_size=1, max_size=12).map(" ".join)
CELL = st.one_of(st.just(""), WORD, SENTENCE, st.from_regex(r"-?\d{1,3}(,\d{3})?(\.\d{2})?", fullmatch=True), st.just("a \\| b"))


@st.composite
def tables(draw: st.DrawFn) -> str:
    width = draw(st.integers(1, 5))
    row = st.lists(CELL, min_size=max(1, width - 1), max_size=width + 1)
    rule = draw(st.lists(st.sampled_from(["---", ":-", "-:", ":-:"]), min_size=width, max_size=width))
    lines = [draw(st.lists(WORD, min_size=width, max_size=width)), rule, *draw(st.lists(row, max_size=6))]
    closing = draw(st.sampled_from([" |", "|", ""]))
    return "".join(f"| {' | '.join(line)}{closing}\n" for line in lines)


READABLE = st.lists(st.one_of(SENTENCE, SENTENCE.map("{}\n".format), st.just("\n"), tables()), max_size=6).map("".join)
ANYTHING = st.lists(st.one_of(LETTERS, READABLE), max_size=4).map("".join)
WIDTHS = st.sampled_from([1, 2, 10, 24, 40, 80, 200])


def screen(chunks: Sequence[str], *, width: int = 80, indent: int = 0, height: int = 1000) -> str:
    written = io.StringIO()
    answer = Answer(Console(file=written, width=width, height=height), indent=indent)
    for chunk in chunks:
        answer.show(chunk)
    answer.end()
    return written.getvalue()


def letters(text: str) -> Counter[str]:
    return Counter(letter for letter in text if letter.isalnum())


@given(ANYTHING, st.data(), WIDTHS, st.sampled_from([0, 8]))
def test_the_output_does_not_depend_on_how_the_text_is_split_into_chunks(text: str, data: st.DataObject, width: int, indent: int):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    chunks = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    assert screen(chunks, width=width, indent=indent) == screen([text], width=width, indent=indent)
    assert screen(list(text), width=width, indent=indent) == screen([text], width=width, indent=indent)


def test_a_word_that_is_split_over_two_chunks_is_not_broken():
    assert screen(["1111é", "11", "11"], width=2) == screen(["1111é1111"], width=2) == "1111é1111\n"


@given(ANYTHING, WIDTHS)
def test_no_letter_is_lost_and_no_control_character_is_printed(text: str, width: int):
    shown = screen([text], width=width)
    assert letters(text) <= letters(shown)
    assert not set(shown) & {"\x1b", "\r", "\t"}


@given(READABLE, st.sampled_from([24, 40, 80, 200]))
def test_a_line_fits_on_the_screen(text: str, width: int):
    assert max(map(cell_len, screen([text], width=width).splitlines()), default=0) <= width


@given(st.lists(WORD, min_size=1, max_size=40), st.sampled_from([24, 40, 80]))
def test_a_line_ends_between_two_words(words: list[str], width: int):
    ascii_words = [word for word in words if word.isascii()]
    assert screen([" ".join(ascii_words)], width=width).split() == ascii_words


def test_a_block_is_shown_when_it_is_complete_and_pending_before():
    written = io.StringIO()
    answer = Answer(Console(file=written, width=20))
    answer.show("The ans")
    answer.show("wer\nis ")
    assert (written.getvalue(), answer.pending) == ("", "The answer\nis ")
    answer.show("42.\n\nAnd")
    assert (written.getvalue(), answer.pending) == ("The answer\nis 42.\n", "And")
    answer.end()
    assert written.getvalue() == "The answer\nis 42.\n\nAnd\n"
    assert (answer.text, answer.pending) == ("The answer\nis 42.\n\nAnd", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**Bold**, *emphasis* and `code`", "Bold, emphasis and code\n"),
        ("# A heading", "A heading\n"),
        ("- one\n- two", " • one\n • two\n"),
        ("3. three\n7. seven", "3. three\n7. seven\n"),
        ("2*3*4 = 24 and 2**3**2 = 512", "2*3*4 = 24 and 2**3**2 = 512\n"),
        ("List<String> and <b>bold</b>", "List<String> and <b>bold</b>\n"),
        ("an &#27;[31m entity", "an &#27;[31m entity\n"),
        ("[text](https://example.org)", "text (https://example.org)\n"),
        ("one line\nand another", "one line\nand another\n"),
        ("```\na = 1\n\n\nb = 2\n```", " a = 1\n\n\n b = 2\n"),
    ],
)
def test_markdown_is_rendered_without_loss_of_text(text: str, shown: str):
    assert screen([text]) == shown


TABLE = """| country | revenue | share |
| --- | --- | --- |
| Germany | 4,292,597.22 | 12% |
| Côte d'Ivoire | 1.5 | |
"""


def test_a_table_is_shown_in_columns_once_it_is_complete():
    written = io.StringIO()
    answer = Answer(Console(file=written, width=80))
    answer.show(f"Here:\n{TABLE}")
    assert written.getvalue() == ""
    answer.show("That is all.")
    answer.end()
    assert written.getvalue().splitlines() == [
        "Here:",
        "country              revenue   share",
        "────────────────────────────────────",
        "Germany         4,292,597.22     12%",
        "Côte d'Ivoire            1.5",
        "That is all.",
    ]


def test_the_colons_of_the_rule_align_the_columns():
    shown = screen(["|left|middle|right|\n|:--|:-:|--:|\n|1|b|c|\n|22|bb|dd|\n"])
    assert shown.splitlines()[2:] == ["1        b          c", "22       bb        dd"]


@given(st.integers(0, 10**9), st.text("abc ", min_size=1, max_size=30), st.integers(24, 60))
def test_a_number_is_never_folded(number: int, name: str, width: int):
    shown = f"{number:,}.25"
    assert shown in screen([f"|{name}x|what|\n|-|-|\n|{shown}|{'word ' * 20}|\n"], width=width)


def test_a_table_that_is_too_wide_is_a_list_of_its_rows():
    assert screen([TABLE], width=24).splitlines() == [
        "country   Germany",
        "revenue   4,292,597.22",
        "share     12%",
        "",
        "country   Côte d'Ivoire",
        "revenue   1.5",
        "share",
    ]


def test_a_long_text_is_folded_and_a_number_is_not():
    shown = screen(["|what|how much|\n|-|-|\n|" + "some long text " * 6 + "|1,234,567.89|\n"], width=40)
    assert shown.splitlines()[2:] == [
        "some long text some long    1,234,567.89",
        "text some long text some",
        "long text some long text",
        "some long text",
    ]


def test_a_table_longer_than_the_screen_repeats_its_header_at_the_end():
    lines = screen(["|number|\n|-|\n" + "".join(f"|{number}|\n" for number in range(50))], height=30).splitlines()
    assert (lines[0], lines[1], lines[-2], lines[-1]) == ("number", "──────", "──────", "number")
    assert len(lines) == 54


def test_lines_with_bars_that_are_not_a_table_are_printed_as_they_are():
    text = "| a line\n|| another |\n  indented\n"
    assert screen([text]) == text


def test_a_row_with_more_cells_than_the_header_keeps_them():
    assert "surplus" in screen(["|a|\n|-|\n|1|surplus|\n"])


def test_an_ascii_terminal_gets_a_rule_of_dashes():
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_answer(Console(file=written, width=40), "|a|\n|-|\n|1|\n")
    written.seek(0)
    assert written.read() == "a\n-\n1\n"


@pytest.mark.parametrize(
    "text",
    [
        "|a|\n|" + "-" * 5000 + "x\n",
        "|a|\n|" + "-|" * 3000 + "x\n",
        "x" * 200_000,
        " " * 200_000,
        "|" * 20_000,
        "|-\n" * 5000,
        "a " * 50_000,
    ],
    ids=["rule", "rules", "word", "space", "bars", "rows", "words"],
)
def test_hostile_text_is_rendered_in_bounded_time(text: str):
    began = time.process_time()
    shown = screen([text], width=80)
    assert letters(text) <= letters(shown)
    assert time.process_time() - began < 10


def test_columns_of_numbers_are_aligned_right():
    right = ["1", "-1,234.5", "+3", "12%", "€5", "46.90 EUR", ".5"]
    left = ["1a", "2025-01-01", "1 2", "A 5", "-"]
    for cell in right + left:
        line = screen([f"|a long head|\n|-|\n|{cell}|\n"]).splitlines()[2]
        assert line == (cell.rjust(11) if cell in right else cell), cell
    assert screen(["|a|\n|-|\n||\n"]) == "a\n─\n"
