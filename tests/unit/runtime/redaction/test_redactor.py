"""Secrets are found however they are written in other texts, and nothing else is changed."""

from __future__ import annotations

import json
import operator
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import SecretStr
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, InterlockError, Outcome, Secret, Settings, node
from interlock.capabilities.capability import emits
from interlock.contract.schema import to_json
from interlock.engine import EngineName
from interlock.errors import ContractError, InputSchema
from interlock.runtime.events import Event
from interlock.runtime.redaction import REDACTED, Redactor, StreamRedactor
from interlock.runtime.redaction.exceptions import contains_secret
from interlock.settings import PATTERNS
from tests.support.listening import chain

KEY = "sk-abcdefghijklmnopqrstuvwx"
CANARY = "canary-Xq7ZvK"


def knowing(*secrets: Any, patterns: tuple[str, ...] = ()) -> Redactor:
    redactor = Redactor(patterns)
    for secret in secrets:
        redactor.add_secret(secret)
    return redactor


def in_chunks(redactor: Redactor, chunks: list[str]) -> list[str]:
    stream = StreamRedactor(redactor)
    return [*(stream.feed(chunk) for chunk in chunks), stream.flush()]


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places})
    return [text[begin:end] for begin, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def as_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# Texts


ODD = [
    "it's-a-key",
    'say-"key"',
    "back\\slash\\",
    "new\nline\nkey",
    "{[(.*+?^$|)]}",
    "ключ-пароль",
    "tab\tkey",
    "k\u2028ey\x00\x1b",
    "🔑🔑🔑🔑",
    "a%20b/c",
]


@pytest.mark.parametrize("secret", ODD)
@pytest.mark.parametrize("write", [str, repr, json.dumps, as_json, quote])
def test_a_secret_of_odd_characters_is_found_however_it_is_written(secret: str, write: Any):
    shown = knowing(secret).text(f"before {write(secret)} after")
    assert secret not in shown
    assert write(secret).strip("'\"") not in shown
    assert REDACTED in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@pytest.mark.parametrize("secret", ODD)
@pytest.mark.parametrize("write", [repr, json.dumps, as_json])
@pytest.mark.parametrize("around", ["{}", "it's {}", 'he said "{}"', 'it\'s "{}"'])
def test_a_secret_inside_a_text_that_is_quoted_is_found(secret: str, write: Any, around: str):
    """A KeyError says the repr of its text: the quotes in the rest of it decide how those in the secret are written."""
    whole = write(around.format(secret))
    shown = knowing(secret).text(whole)
    assert REDACTED in shown
    assert shown != whole


@given(secret=st.text(min_size=4), before=st.text(), after=st.text())
def test_a_secret_is_never_left_in_a_text(secret: str, before: str, after: str):
    assume(not set(secret) <= set(REDACTED))
    assert secret not in knowing(secret).text(before + secret + after)


@given(secrets=st.lists(st.text(alphabet="ab-", min_size=4, max_size=7), min_size=1, max_size=4), text=st.text(alphabet="ab-", max_size=40))
def test_secrets_that_overlap_or_hold_each_other_are_all_hidden(secrets: list[str], text: str):
    shown = knowing(*secrets).text(text)
    assert not [secret for secret in secrets if secret in shown]
    rest = shown.split(REDACTED)
    assert all(part in text for part in rest)


@given(text=st.text(), secrets=st.lists(st.text(min_size=4), max_size=3))
def test_a_text_without_secrets_is_not_touched(text: str, secrets: list[str]):
    assume(not any(form in text for secret in secrets for form in (secret, secret.strip(), repr(secret)[1:-1], json.dumps(secret)[1:-1])))
    assume(not any(quote(secret.encode("utf-8", "surrogatepass")) in text for secret in secrets))
    assert knowing(*secrets, patterns=PATTERNS).text(text) == text


@pytest.mark.parametrize("secret", ["x   ", " ab  ", "\t\ta\n", "   a"])
def test_a_short_secret_with_blanks_around_it_does_not_hide_every_letter(secret: str):
    assert knowing(secret).text("a text about max and tables") == "a text about max and tables"


@dataclass(frozen=True)
class Login:
    user: str
    password: str
    attempts: list[str] = field(default_factory=list[str])


def test_the_names_of_the_fields_of_a_secret_record_are_no_secret():
    redactor = knowing(Login("bob-smith", "hunter2", ["first-try"]))
    assert redactor.text("bob-smith hunter2 first-try") == " ".join([REDACTED] * 3)
    assert redactor.text("the user forgot the password") == "the user forgot the password"


@given(secrets=st.lists(st.text(min_size=4), max_size=3), text=st.text())
@example(secrets=["redacted"], text="it is redacted")
def test_what_was_redacted_once_stays_as_it_is(secrets: list[str], text: str):
    redactor = knowing(*secrets, patterns=PATTERNS)
    shown = redactor.text(text + "".join(secrets))
    assert redactor.text(shown) == shown


SHAPES: list[tuple[str, str]] = [
    (r"(?<=key=)\w+", "key=abcdef"),
    (r"(?<!x)key-\d+", "a key-123"),
    (r"key-\d+(?!\d|x)", "key-123 "),
    (r"(\w{4,})-\1", "abcd-abcd"),
    (r"(?i)password\s*[:=]\s*\S+", "PassWord: hunter2"),
    (r"\bkey\d+\b", "a key77 b"),
    (r"(?m)^secret .*$", "one\nsecret two\nthree"),
]


@pytest.mark.parametrize(("pattern", "text"), SHAPES)
def test_patterns_may_look_around_and_back(pattern: str, text: str):
    assert REDACTED in Redactor([pattern]).text(text)
    assert Redactor([pattern]).text("nothing to see") == "nothing to see"


@pytest.mark.parametrize(("pattern", "text"), SHAPES)
@given(places=st.lists(st.integers(min_value=0, max_value=30), max_size=6))
def test_patterns_that_look_around_find_the_same_in_a_stream(pattern: str, text: str, places: list[int]):
    redactor = Redactor([pattern])
    assert "".join(in_chunks(redactor, cut(text, places))) == redactor.text(text)


WORDS = [b"hunter2-bytes", "schlüssel".encode()]
BYTES = [(secret, write) for secret in (*WORDS, b"\xff\xfe\x00raw") for write in (repr, str)] + [(secret, as_text) for secret in WORDS]


@pytest.mark.parametrize(("secret", "write"), BYTES)
def test_secret_bytes_are_found_where_they_are_written_out(secret: bytes, write: Any):
    assert knowing(secret).text(write(secret)) != write(secret)


def test_a_secret_str_is_redacted_by_its_value():
    assert knowing(SecretStr(CANARY)).text(f"the key is {CANARY}") == f"the key is {REDACTED}"


@pytest.mark.parametrize("value", [12345, 3.14159, -70000])
def test_a_secret_number_is_hidden_in_texts_and_as_a_number(value: float):
    redactor = knowing(value)
    assert redactor.data({"a": value, "b": [f"it is {value}."], "c": 1}) == {"a": REDACTED, "b": [f"it is {REDACTED}."], "c": 1}


@pytest.mark.parametrize("secret", ["", "a", "abc", 7, 999, True, None, [], {}])
def test_what_is_too_short_to_look_for_hides_nothing_else(secret: Any):
    assert knowing(secret).data({"abc": ["a", 7, 999, True, None]}) == {"abc": ["a", 7, 999, True, None]}


JSON = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(inner=JSON, depth=st.integers(min_value=0, max_value=5), as_key=st.booleans())
def test_no_place_in_json_data_hides_a_secret(inner: Any, depth: int, as_key: bool):  # noqa: FBT001
    value: Any = {f"<{CANARY}>": inner} if as_key else [inner, f"<{CANARY}>"]
    for _ in range(depth):
        value = {"deeper": [inner, value]}
    shown = json.dumps(knowing(CANARY).data(json.loads(json.dumps(value))))
    assert CANARY not in shown
    assert f"<{REDACTED}>" in shown


@given(
    inner=JSON,
    secrets=st.lists(st.text(min_size=4, max_size=6) | st.sampled_from(['{"a":', '":"', 'a\\b"', "null", "true", "12345"]), max_size=3),
)
def test_values_of_any_kind_are_shown_as_their_json_data_is(inner: Any, secrets: list[str]):
    value = {"a": [inner, *secrets], "b": Login("bob", "".join(secrets))}
    redactor = knowing(*secrets, patterns=(*PATTERNS, r"^x", r"y$", r"(?i)bo+b", r"\\", r'"'))
    assert redactor.to_json(value) == redactor.data(to_json(value))


def test_two_keys_that_are_secret_do_not_become_one():
    shown = knowing("secret-1", "secret-2").data({"secret-1": 1, "secret-2": 2, "c": 3})
    assert sorted(map(str, shown.values())) == ["1", "2", "3"]


# Streams


PIECES = st.lists(st.integers(min_value=0, max_value=60), max_size=10)


@given(
    secrets=st.lists(st.text(alphabet="ab-", min_size=4, max_size=8), max_size=3), text=st.text(alphabet="ab-", max_size=50), places=PIECES
)
def test_a_text_in_pieces_is_shown_as_the_whole_text_is(secrets: list[str], text: str, places: list[int]):
    redactor = knowing(*secrets)
    assert "".join(in_chunks(redactor, cut(text, places))) == redactor.text(text)


TOKENS = st.lists(
    st.sampled_from(
        [
            KEY,
            KEY[:9],
            "sk-",
            "Bearer ",
            "eyJ",
            "abcdefgh.",
            "AKIA0123456789ABCDEF",
            " ",
            "x",
            "-",
            "=",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "\n",
        ]
    ),
    max_size=12,
).map("".join)


@given(text=TOKENS, places=st.lists(st.integers(min_value=0, max_value=200), max_size=10))
def test_a_key_in_pieces_is_shown_as_the_whole_text_is(text: str, places: list[int]):
    redactor = Redactor(PATTERNS)
    assert "".join(in_chunks(redactor, cut(text, places))) == redactor.text(text)


@given(before=st.text(alphabet="xyz ", max_size=10), places=PIECES)
def test_no_part_of_a_secret_is_shown_before_the_rest_of_it_comes(before: str, places: list[int]):
    stream = StreamRedactor(knowing(CANARY))
    shown = "".join(stream.feed(piece) for piece in cut(before + CANARY[:-1], places))
    assert shown == before


@given(text=st.text(alphabet="mnow ", max_size=40), places=PIECES)
def test_innocent_text_is_not_kept_waiting(text: str, places: list[int]):
    pieces = cut(text, places)
    assert in_chunks(knowing(CANARY, patterns=PATTERNS), pieces) == [*pieces, ""]


def test_a_long_secret_that_is_streamed_is_not_shown():
    secret = "".join(f"{number:x};" for number in range(15_000))
    assert len(secret) > 64 * 1024
    pieces = [secret[at : at + 5000] for at in range(0, len(secret), 5000)]
    shown = "".join(in_chunks(knowing(secret), ["before ", *pieces, " after"]))
    assert secret[:1000] not in shown
    assert secret[-1000:] not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


def test_a_long_key_that_is_streamed_is_not_shown():
    key = "sk-" + "abcdefghij" * 8000
    pieces = [key[at : at + 5000] for at in range(0, len(key), 5000)]
    assert "abcdefghij" not in "".join(in_chunks(Redactor(PATTERNS), [*pieces, " after"]))


def test_a_long_secret_does_not_stop_the_world():
    redactor = knowing("".join(f"{number:x};" for number in range(50_000)))
    began = time.perf_counter()
    StreamRedactor(redactor).feed("z" * 200_000)
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize(("words", "lines"), [(200, 3000), (1, 20_000)])
def test_a_redactor_that_lives_for_ever_does_not_grow_for_ever(words: int, lines: int):
    """A server formats every log line with the same one."""
    import tracemalloc  # noqa: PLC0415

    redactor = Redactor(PATTERNS)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(lines):
            redactor.text(f"{number} " + "line " * words)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1_000_000


def test_patterns_that_are_too_large_for_the_fast_engine_are_obeyed():
    assert Redactor(["key-[a-z]{1,200000}"]).text("the key-abc is here") == f"the {REDACTED} is here"


class Unspeakable:
    """Cannot be written."""

    def __repr__(self) -> str:
        raise ValueError(CANARY)


def test_an_error_that_cannot_be_written_is_searched_as_far_as_it_can_be():
    error = ValueError(Unspeakable())
    assert not contains_secret(knowing(CANARY), error)
    error.add_note(f"the key is {CANARY}")
    assert contains_secret(knowing(CANARY), error)


# Turns


class Safe(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    keys: Annotated[dict[str, int], Secret]
    pin: Annotated[int, Secret]
    parts: Annotated[str, operator.add, Secret]
    maybe: Annotated[str, Secret] | None
    raw: Annotated[bytes, Secret]
    out: str


class Vault(Capability, Protocol):
    async def open(self, name: str) -> Annotated[str, Secret]: ...
    async def maybe(self, name: str) -> Annotated[str, Secret] | None: ...
    async def close(self, key: Annotated[str, Secret], *, note: str = "") -> str: ...
    @emits("tool")
    async def use(self, key: Annotated[str, Secret], *, note: str = "") -> str: ...
    def spell(self, name: str) -> AsyncIterator[Annotated[str, Secret]]: ...
    @emits("tool")
    def words(self, text: str) -> AsyncIterator[str]: ...
    @emits("tool")
    def chunks(self, text: str) -> AsyncIterator[Chunk]: ...
    @emits("tool")
    def raw(self, text: str) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True)
class Chunk:
    text: str
    number: int


class RealVault:
    def __init__(self, *, secret: str = CANARY, size: int = 3) -> None:
        self._secret = secret
        self._size = size

    async def open(self, name: str) -> str:
        return self._secret

    async def maybe(self, name: str) -> str | None:
        return self._secret

    async def close(self, key: str, *, note: str = "") -> str:
        raise RuntimeError(key)

    async def use(self, key: str, *, note: str = "") -> str:
        return f"used {key}"

    async def spell(self, name: str) -> AsyncIterator[str]:
        for piece in self._cut(self._secret):
            yield piece

    async def words(self, text: str) -> AsyncIterator[str]:
        for piece in self._cut(text):
            yield piece

    async def chunks(self, text: str) -> AsyncIterator[Chunk]:
        for number, piece in enumerate(self._cut(text)):
            yield Chunk(piece, number)

    async def raw(self, text: str) -> AsyncIterator[bytes]:
        for piece in self._cut(text):
            yield piece.encode()

    def _cut(self, text: str) -> Iterator[str]:
        return (text[at : at + self._size] for at in range(0, len(text), self._size))


class Done(Outcome):
    out: str


class Kept(Outcome):
    token: Annotated[str, Secret]


class Part(Outcome):
    parts: str


def safe(*runs: Any, **options: Any) -> Graph:
    targets = [*runs[1:], END]
    rows = [node(run, goes={_outcome(run): to}) for run, to in zip(runs, targets, strict=True)]
    return Graph("safe", state=Safe, entry=runs[0], nodes=rows, **options)


def _outcome(run: Any) -> Any:
    return {"Done": Done, "Kept": Kept, "Part": Part}[run.__annotations__["return"]]


async def take(engine: EngineName, graph: Graph, given: dict[str, Any], **settings: Any) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    grants = {Vault: RealVault()}
    result = await Interlock(Settings(engine=engine, **settings), grants=grants).run(graph, given, on_event=events.append)
    return result, events


def told(error: BaseException) -> str:
    return " ".join(f"{one} {one!r} {one.args} {getattr(one, '__notes__', '')}" for one in chain(error))


async def tell_token(token: str) -> Done:
    raise ValueError(f"bad token {token}")


async def tell_keys(keys: dict[str, int]) -> Done:
    raise ValueError(f"bad keys {keys}")


async def tell_pin(pin: int) -> Done:
    raise ValueError(f"bad pin {pin}")


async def tell_raw(raw: bytes) -> Done:
    raise ValueError(f"bad key {raw.decode()}")


async def tell_maybe(maybe: str | None) -> Done:
    raise ValueError(f"bad token {maybe}")


TOLD: list[tuple[Any, dict[str, Any]]] = [
    (tell_token, {"token": CANARY}),
    (tell_keys, {"keys": {CANARY: 1}}),
    (tell_pin, {"pin": 987654321}),
    (tell_raw, {"raw": CANARY.encode()}),
    (tell_maybe, {"maybe": CANARY}),
]


@pytest.mark.parametrize(("run", "given"), TOLD)
async def test_what_a_node_says_about_a_secret_field_is_not_shown(engine: EngineName, run: Any, given: dict[str, Any]):
    result, events = await take(engine, safe(run), given)
    seen = json.dumps([result.to_json(), events]) + repr(result)
    assert result.error.code == "node_failed"
    assert CANARY not in seen
    assert "987654321" not in seen


@pytest.mark.parametrize(("run", "given"), TOLD)
async def test_what_a_node_says_about_a_secret_field_is_not_shown_where_langgraph_runs_it(run: Any, given: dict[str, Any]):
    compiled = Interlock(Settings()).langgraph(safe(run))
    with pytest.raises(InterlockError) as caught:
        await compiled.ainvoke(given)
    assert CANARY not in told(caught.value)
    assert "987654321" not in told(caught.value)


async def group(token: str) -> Done:
    raise ExceptionGroup("two things went wrong", [ValueError(token), KeyError(token)])


async def noted(token: str) -> Done:
    error = ValueError("it went wrong")
    error.add_note(f"with {token}")
    raise error


class Quiet(Exception):
    def __str__(self) -> str:
        return "it went wrong"


async def quiet(token: str) -> Done:
    raise Quiet(token)


async def both(token: str) -> Done:
    try:
        return Done(out=str(int(token)))
    except ValueError:
        raise RuntimeError("it went wrong") from OSError("a clean cause")


async def keep(text: str) -> Kept:
    return Kept(token=text)


@pytest.mark.parametrize("run", [group, noted, quiet, both])
async def test_what_an_error_drags_along_is_clean_too(run: Any):
    """The step that wrote the secret is LangGraph's to run as well, so what raises here knows the secret from its input alone."""
    compiled = Interlock(Settings()).langgraph(safe(keep, run))
    with pytest.raises(InterlockError) as caught:
        await compiled.ainvoke({"text": CANARY})
    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("run", [group, noted, quiet, both])
async def test_what_an_error_drags_along_has_no_key_that_looks_like_one(run: Any):
    compiled = Interlock(Settings()).langgraph(safe(run))
    with pytest.raises(InterlockError) as caught:
        await compiled.ainvoke({"token": KEY})
    assert KEY not in told(caught.value)


async def wrong_token(text: str) -> Kept:
    return Kept(token=text.encode())  # pyright: ignore[reportArgumentType]


async def test_an_outcome_that_does_not_fit_does_not_tell_the_value_it_had(engine: EngineName):
    graph = safe(wrong_token, tell_token)
    result, events = await take(engine, graph, {"text": KEY})
    assert result.error.code == "contract_violation"
    assert KEY not in json.dumps([result.error.message, events])
    with pytest.raises(InterlockError) as caught:
        await Interlock(Settings()).langgraph(graph).ainvoke({"text": KEY})
    assert KEY not in told(caught.value)


BAD_INPUT: list[dict[str, Any]] = [
    {"keys": {CANARY: "not a number"}},
    {"token": [CANARY]},
    {"token": CANARY, KEY: 1},
    {"pin": KEY},
    {"raw": KEY},
]


@pytest.mark.parametrize("given", BAD_INPUT)
async def test_an_input_that_is_refused_is_not_repeated(engine: EngineName, given: dict[str, Any]):
    with pytest.raises(InputSchema) as caught:
        await Interlock(Settings(engine=engine)).run(safe(tell_token), given)
    assert KEY not in told(caught.value)
    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("given", [{"keys": {CANARY: "not a number"}}, {"pin": KEY}])
async def test_an_input_that_is_refused_is_not_repeated_where_langgraph_runs_it(given: dict[str, Any]):
    with pytest.raises(InterlockError) as caught:
        await Interlock(Settings()).langgraph(safe(_read_all)).ainvoke(given)
    assert KEY not in told(caught.value)
    assert CANARY not in told(caught.value)


async def _read_all(keys: dict[str, int] | None, pin: int | None, raw: bytes | None) -> Done:
    return Done(out="read")


@dataclass
class Defaults:
    text: str = ""
    token: Annotated[str, Secret] = CANARY
    out: str = ""


async def test_a_secret_that_a_field_begins_with_is_not_shown(engine: EngineName):
    graph = Graph("defaults", state=Defaults, entry=tell_token, nodes=[node(tell_token, goes={Done: END})], takes=["text"])
    result, events = await take(engine, graph, {"text": "x"})
    assert result.error.code == "node_failed"
    assert CANARY not in json.dumps([result.to_json(), events])


async def test_a_secret_that_a_field_begins_with_is_not_in_the_output(engine: EngineName):
    graph = Graph("defaults", state=Defaults, entry=_say, nodes=[node(_say, goes={Done: END})], takes=["text"])
    result, events = await take(engine, graph, {"text": "x"})
    assert result.error is None
    assert CANARY not in json.dumps([result.to_json(), events])


async def _say(text: str) -> Done:
    return Done(out=text)


async def first_half(text: str) -> Part:
    return Part(parts=text[:3])


async def second_half(text: str) -> Part:
    return Part(parts=text[3:6])


async def tell_parts(parts: str) -> Done:
    raise ValueError(f"bad {parts}")


async def test_a_secret_that_a_reducer_put_together_is_not_shown(engine: EngineName):
    result, events = await take(engine, safe(first_half, second_half, tell_parts), {"text": "abcdef"})
    assert result.error.code == "node_failed"
    assert "abcdef" not in json.dumps([result.error.message, [event["data"].get("error") for event in events]])


@pytest.mark.parametrize("given", [{"pin": 7}, {"pin": 123}, {"token": "abc"}, {"keys": {"abc": 1}}, {"token": ""}])
async def test_a_secret_too_short_to_look_for_is_hidden_in_the_output_as_well(engine: EngineName, given: dict[str, Any]):
    """A graph that names no `gives` has the whole state for its output."""
    result, events = await take(engine, safe(_say), {"text": "hello", **given})
    (name,) = given
    assert result.to_json()["state"][name] == REDACTED
    assert result.to_json()["output"][name] == REDACTED
    assert events[-1]["data"]["output"]["output"][name] == REDACTED


@pytest.mark.parametrize("word", ["error", "status", "output", "input", "data", "code", "success", "node_failed", "safe", "tell_token"])
async def test_a_secret_that_is_an_ordinary_word_leaves_the_result_readable(engine: EngineName, word: str):
    result, events = await take(engine, safe(tell_token), {"token": word})
    told = result.to_json()
    assert told.keys() == {"agent", "session", "turn", "status", "output", "error", "path", "state", "metadata", "usage"}
    assert (told["status"], told["error"]["code"], told["error"]["node"]) == ("error", "node_failed", "tell_token")
    assert [event["data"].keys() for event in events] == [{"input"}, {"input"}, {"error"}, {"output"}]
    assert events[-1]["data"]["output"]["status"] == "error"


async def open_vault(text: str, *, vault: Vault) -> Done:
    raise ValueError(f"got {await vault.open(text)}")


async def open_maybe(text: str, *, vault: Vault) -> Done:
    raise ValueError(f"got {await vault.maybe(text)}")


async def spell_vault(text: str, *, vault: Vault) -> Done:
    raise ValueError(f"got {''.join([piece async for piece in vault.spell(text)])}")


async def close_vault(text: str, *, vault: Vault) -> Done:
    return Done(out=await vault.close(f"{text}y", note="n"))


async def close_vault_by_name(text: str, *, vault: Vault) -> Done:
    return Done(out=await vault.close(note="n", key=f"{text}y"))


async def use_vault(text: str, *, vault: Vault) -> Done:
    await vault.use(f"{CANARY}{text}", note=f"{CANARY}{text}")
    raise ValueError(f"used {CANARY}{text}")


@pytest.mark.parametrize("run", [open_vault, open_maybe, spell_vault, close_vault, close_vault_by_name, use_vault])
async def test_what_a_capability_takes_or_gives_as_secret_is_not_shown(engine: EngineName, run: Any):
    result, events = await take(engine, safe(run), {"text": CANARY[:-1] if "close" in run.__name__ else "x"})
    assert result.error.code in {"node_failed", "capability_failed"}
    assert CANARY not in json.dumps([result.error.message, [event["data"] for event in events[1:-1]]]).replace(f'"text": "{CANARY}', "")
    with pytest.raises(InterlockError) as caught:
        await Interlock(Settings(), grants={Vault: RealVault()}).langgraph(safe(run)).ainvoke({"text": "x"})
    assert CANARY not in told(caught.value)


async def stream_words(token: str, *, vault: Vault) -> Done:
    return Done(out="".join([piece async for piece in vault.words(f"<{token}>")]))


async def stream_chunks(token: str, *, vault: Vault) -> Done:
    return Done(out="".join([piece.text async for piece in vault.chunks(f"<{token}>")]))


async def stream_raw(token: str, *, vault: Vault) -> Done:
    return Done(out=b"".join([piece async for piece in vault.raw(f"<{token}>")]).decode())


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value):
            yield from texts(item)


@pytest.mark.parametrize("run", [stream_words, stream_chunks, stream_raw])
async def test_a_secret_in_the_pieces_of_a_stream_cannot_be_put_together_again(engine: EngineName, run: Any):
    result, events = await take(engine, safe(run), {"token": CANARY})
    assert result.error is None
    shown = "".join(text for event in events if event["event"] == "on_tool_stream" for text in texts(event["data"]))
    ended = "".join(text for event in events if event["event"] == "on_tool_end" for text in texts(event["data"]))
    for seen in (shown, ended):
        assert CANARY not in seen
        assert CANARY.encode() not in urlsafe_b64decode("".join(c for c in seen if c.isalnum() or c in "-_").ljust(400, "A")[:400])


async def test_the_pieces_of_a_stream_of_text_are_all_shown_alike(engine: EngineName):
    _, events = await take(engine, safe(stream_words), {"token": "canary-Xq7Zv"}, redact=("canary-\\w+!",))
    chunks = [event["data"]["chunk"] for event in events if event["event"] == "on_tool_stream"]
    assert "".join(chunk["text"] for chunk in chunks) == f"<{REDACTED}>"


def test_a_label_that_would_not_be_obeyed_is_refused_or_obeyed():
    """`Annotated[str, Secret] | None` reads as if the text were secret."""
    try:
        graph = safe(tell_maybe)
    except ContractError:
        return
    assert "maybe" in graph.state.secret


async def test_a_key_in_the_settings_is_not_shown(engine: EngineName):
    key = "not-like-a-key-77"
    result, events = await take(engine, safe(tell_token), {"token": "x", "text": f"it is {key}"}, model_api_key=key)
    assert key not in json.dumps([events])
    result, events = await take(engine, safe(_echo), {"text": f"it is {key}"}, model_api_key=key)
    assert key not in json.dumps([result.error.message, events, result.to_json()])
    with pytest.raises(InputSchema) as caught:
        await Interlock(Settings(engine=engine, model_api_key=key)).run(safe(_echo), {key: key})  # pyright: ignore[reportArgumentType]
    assert key not in told(caught.value)


async def _echo(text: str) -> Done:
    raise RuntimeError(text)


def test_a_secret_that_is_added_in_one_turn_is_redacted_in_that_turn_only():
    both = Redactor(["sk-[a-z]+"])
    knows, knows_not = both.for_turn(), both.for_turn()
    assert knows_not.text("hunter2") == "hunter2"
    knows.add_secret("hunter2")
    assert knows_not.text("hunter2") == "hunter2"
    assert knows.text("hunter2") == REDACTED
    assert knows.to_json({"said": "hunter2"}) == {"said": REDACTED}
