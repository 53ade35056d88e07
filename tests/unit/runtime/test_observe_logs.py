"""The log: a line for every turn, a line for everything at debug, all of it JSON where no person looks."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, node
from interlock.capabilities import Ids
from interlock.capabilities.capability import emits
from interlock.engine import EngineName
from interlock.errors import MediaMalformed
from interlock.logs import LogFormatter, configure_logging
from interlock.runtime.redaction import Redactor
from interlock.settings import PATTERNS
from interlock.testing import CountingIds

KEY = "sk-abcdefghijklmnopqrstuvwx"
CANARY = "canary-Xq7ZvK"


class Talk(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    out: str


class Done(Outcome):
    out: str


class Web(Capability, Protocol):
    @emits("tool")
    async def get(self, address: str) -> str: ...
    async def warm_up(self) -> None: ...


class RealWeb:
    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    async def get(self, address: str) -> str:
        if self._error is not None:
            raise self._error
        return address

    async def warm_up(self) -> None:
        return None


async def fetch(text: str, token: str | None, *, web: Web) -> Done:
    await web.warm_up()
    return Done(out=await web.get(text))


talk = Graph("talk", state=Talk, entry=fetch, nodes=[node(fetch, goes={Done: END})])


async def take(engine: EngineName, given: dict[str, Any], *, error: Exception | None = None, session: str = "s") -> None:
    app = Interlock(Settings(engine=engine), grants={Web: RealWeb(error), Ids: CountingIds()})
    await app.run(talk, given, session=session)


def lines(caplog: pytest.LogCaptureFixture, *, as_json: bool = True) -> list[Any]:
    formatter = LogFormatter(as_json=as_json, redactor=Redactor(PATTERNS))
    written = [formatter.format(record) for record in caplog.records if record.name == "interlock"]
    return [json.loads(line) for line in written] if as_json else written


async def test_a_turn_is_one_line_that_says_how_it_ended(engine: EngineName, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "interlock")
    await take(engine, {"text": "x"})
    (line,) = lines(caplog)
    assert line.items() >= {"level": "info", "logger": "interlock", "message": "turn ended"}.items()
    assert line.items() >= {"agent": "talk", "session": "s", "turn": "id-1", "status": "success", "steps": 1}.items()


async def test_a_turn_that_failed_says_where_and_why(engine: EngineName, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "interlock")
    await take(engine, {"text": "x"}, error=MediaMalformed("It is torn."))
    (line,) = lines(caplog)
    assert line.items() >= {"level": "info", "node": "fetch", "code": "media_malformed", "error": "It is torn."}.items()


async def test_a_mistake_is_logged_as_an_error(engine: EngineName, caplog: pytest.LogCaptureFixture):
    await take(engine, {"text": "x", "token": "abcd"}, error=None)
    app = Interlock(Settings(engine=engine))
    await app.run(Graph("bad", state=Talk, entry=bad, nodes=[node(bad, goes={Done: END})]), {"text": "x"})
    (line,) = lines(caplog)
    assert (line["level"], line["code"]) == ("error", "node_failed")


async def bad(text: str) -> Done:
    raise RuntimeError(text)


async def test_everything_is_logged_on_request(engine: EngineName, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG", "interlock")
    await take(engine, {"text": "x"})
    assert [line["message"] for line in lines(caplog)] == [
        "on_chain_start talk",
        "on_chain_start fetch",
        "on_capability_start Web.warm_up",
        "on_capability_end Web.warm_up",
        "on_tool_start Web.get",
        "on_tool_end Web.get",
        "on_chain_end fetch",
        "turn ended",
        "on_chain_end talk",
    ]
    assert all(line["run_id"] for line in lines(caplog) if line["message"] != "turn ended")


async def test_what_failed_is_still_named_in_its_line(engine: EngineName, caplog: pytest.LogCaptureFixture):
    caplog.set_level("DEBUG", "interlock")
    await take(engine, {"text": "x"}, error=MediaMalformed("It is torn."))
    failed = [line for line in lines(caplog) if line.get("code") and line["message"] != "turn ended"]
    assert [line["message"] for line in failed] == ["on_tool_error Web.get", "on_chain_error fetch"]
    assert all("It is torn." in json.dumps(line) for line in failed)


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
async def test_no_line_has_a_secret(engine: EngineName, caplog: pytest.LogCaptureFixture, as_json: bool, level: str):  # noqa: FBT001
    caplog.set_level(level)
    await take(engine, {"text": f"{CANARY} {KEY}", "token": CANARY}, error=MediaMalformed(f"{CANARY} {KEY}"), session=CANARY)
    await take(engine, {"text": KEY, "token": CANARY}, error=RuntimeError(f"{CANARY} {KEY}"), session=KEY)
    written = json.dumps(lines(caplog, as_json=as_json))
    assert CANARY not in written
    assert KEY not in written
    for record in caplog.records:
        assert CANARY not in f"{record.getMessage()} {record.__dict__}"
        assert KEY not in f"{record.getMessage()} {record.__dict__}"


def record(message: str, *args: Any, error: BaseException | None = None, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("test", logging.INFO, __file__, 1, message, args, None if error is None else (type(error), error, None))
    made.__dict__["fields"] = fields
    return made


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(message=st.text(), argument=ANY, name=st.text(), value=ANY)
def test_any_record_is_one_line_of_json(message: str, argument: Any, name: str, value: Any):
    made = record("%s %s", message, argument, error=ValueError(message))
    made.__dict__["fields"] = {name: value}
    line = LogFormatter(as_json=True, redactor=Redactor(PATTERNS)).format(made)
    assert "\n" not in line
    assert "\r" not in line
    assert json.loads(line).keys() >= {"time", "level", "logger", "message"}


@pytest.mark.parametrize("text", ["one\nerror: two", "one\rtwo", "\x1b[2Jgone", "\x9b2J"])
def test_a_line_for_a_person_is_one_line_and_cannot_move_the_cursor(text: str):
    """The message of an error can be a model's or a user's words: they must not look like another line of the log."""
    line = LogFormatter(as_json=False, redactor=Redactor()).format(record("turn ended", error_message=text))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line
    assert "\x9b" not in line


@pytest.mark.parametrize("name", ["time", "level", "logger", "message"])
def test_a_field_does_not_take_the_place_of_what_every_line_has(name: str):
    made = record("said")
    made.__dict__["fields"] = {name: "other"}
    line = json.loads(LogFormatter(as_json=True, redactor=Redactor()).format(made))
    assert line[name] != "other"


@pytest.mark.parametrize("as_json", [True, False])
def test_keys_in_the_lines_of_others_are_hidden_too(as_json: bool):  # noqa: FBT001
    """A library may log its request, or an exception that quotes it."""
    line = LogFormatter(as_json=as_json, redactor=Redactor(PATTERNS)).format(record("key %s", KEY, error=ValueError(KEY), **{KEY: KEY}))
    assert KEY not in line
    assert "ValueError" in line


def test_a_line_has_its_time_in_utc():
    made = record("x")
    made.created, made.msecs = 0.0, 7.9
    assert json.loads(LogFormatter(as_json=True, redactor=Redactor()).format(made))["time"] == "1970-01-01T00:00:00.007Z"


@pytest.fixture
def logging_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test set up the log of the process, and put everything back."""
    root, own = logging.getLogger(), logging.getLogger("interlock")
    levels = root.level, own.level
    monkeypatch.setattr(root, "handlers", list[logging.Handler]())
    yield
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.mark.usefixtures("logging_of_its_own")
def test_the_log_of_a_process_goes_to_standard_error_as_json(capsys: pytest.CaptureFixture[str]):
    configure_logging("info", Redactor([r"sk-[a-z]+"]))
    logging.getLogger("interlock").info("key %s", KEY)
    logging.getLogger("other").debug("not shown")
    try:
        int(KEY)
    except ValueError:
        logging.getLogger("other").exception("it failed")
    ran = capsys.readouterr()
    first, second = map(json.loads, ran.err.splitlines())
    assert (ran.out, first["message"], second["message"]) == ("", "key [redacted]", "it failed")
    assert KEY not in ran.err
    assert "Traceback" in second["exception"]


@pytest.mark.usefixtures("logging_of_its_own")
def test_a_log_that_is_off_says_nothing(capsys: pytest.CaptureFixture[str]):
    before = list(logging.getLogger().handlers)
    configure_logging("off", Redactor())
    logging.getLogger("interlock").error("a turn failed")
    assert (logging.getLogger().handlers, capsys.readouterr().err) == (before, "")
