"""An agent of one's own: made by one command, clean and working as it is, and taken by every other command."""

from __future__ import annotations

import importlib
import io
import json
import keyword
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock import Interlock, Settings
from interlock.cli import main
from interlock.cli.new import FILES, TEMPLATE, check_name, from_template, make
from interlock.cli.scaffold import agent
from interlock.cli.scaffold.graph import graph
from interlock.contract.document import without_proofs
from interlock.discovery import AGENTS
from interlock.engine import EngineName
from interlock.errors import FolderUnusable, InterlockError, NameUnusable

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
LONGEST = "an_agent_whose_name_is_as_long_as_can_be"
DELIVERY = "How long does delivery take?"
PARCEL = "A parcel takes three working days."

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two new agents in it: names are short and long, and both have to fit."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("mine", LONGEST):
        make(name, folder, from_template(name))
    return folder


@pytest.fixture
def command(made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Command]:
    """Run the command line beside the new agents, in this process."""
    monkeypatch.chdir(made)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("INTERLOCK_LOG_LEVEL", "off")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["interlock", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        printed = capsys.readouterr()
        return int(done.value.code or 0), printed.out, printed.err

    yield run
    for name in [name for name in sys.modules if name.partition(".")[0] in {"mine", "shop"}]:
        del sys.modules[name]


def tool(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, arguments)], cwd=folder, check=False, capture_output=True, text=True)


# What is made


def test_the_linter_and_the_formatter_find_nothing_for_short_and_long_names(made: Path):
    settings = ("--no-cache", "--config", ROOT / "pyproject.toml", made)
    for where in (ROOT, made):  # from elsewhere it is another project's, and Interlock is somebody else's package
        checked = tool(BIN / "ruff", "check", *settings, folder=where)
        assert checked.returncode == 0, checked.stdout
    for width in ("140", "88"):
        formatted = tool(BIN / "ruff", "format", "--check", "--line-length", width, *settings, folder=made)
        assert formatted.returncode == 0, formatted.stdout


def test_the_type_checker_finds_nothing_in_strict_mode(made: Path, tmp_path: Path):
    project = {"include": [str(made / LONGEST)], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project))
    checked = tool(BIN / "basedpyright", "-p", tmp_path, "--pythonpath", sys.executable, "--outputjson", folder=tmp_path)
    report = json.loads(checked.stdout)
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == len([file for file in FILES if file.endswith(".py")])


def test_its_own_tests_pass(command: Command):
    code, _, _ = command("show", "mine:agent")  # with that it can be imported
    tests = [test for name, test in vars(importlib.import_module("mine.test_mine")).items() if name.startswith("test_")]
    for test in tests:
        test()
    assert (code, len(tests)) == (0, 9)


def test_everything_of_the_template_is_made_and_bears_the_new_name(made: Path):
    assert set(FILES) == {path.name for path in TEMPLATE.iterdir() if path.suffix in {".py", ".md"}}
    assert {path.name for path in (made / "mine").iterdir()} >= {file.replace("scaffold", "mine") for file in FILES}
    assert not [path for path in made.glob("*/*.*") if "scaffold" in path.name or "scaffold" in path.read_text(encoding="utf-8").lower()]


def test_what_was_made_is_listed_and_what_to_type_next(command: Command, tmp_path: Path):
    code, printed, err = command("new", "shop", "--in", str(tmp_path))
    assert (code, err) == (0, "")
    listed = [line.split()[0] for line in printed.splitlines() if line.startswith(f"  {tmp_path}")]
    assert {Path(file) for file in listed} == set((tmp_path / "shop").iterdir())
    assert f"\n  cd {tmp_path}\n" in printed
    for next_one in ("run", "chat", "show", "verify"):
        assert f"\n  interlock {next_one} shop:agent" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]


def test_where_no_folder_is_named_it_is_made_here_also_in_an_empty_folder(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    Path("shop").mkdir()
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # where the empty folder can be imported
    code, printed, _ = command("new", "shop")
    assert code == 0
    assert "  cd " not in printed
    assert "\n  shop/graph.py " in printed
    assert len(list(Path("shop").iterdir())) == len(FILES)


# What every command does with it


@pytest.mark.parametrize("engine", ["direct", "langgraph"])
def test_it_runs_by_its_own_rules_and_refuses_by_its_own_codes(command: Command, engine: str):
    assert command("run", "mine:agent", DELIVERY, "--engine", engine) == (0, f"{PARCEL}\n", "")
    code, printed, _ = command("run", "mine:agent", "Tell me a joke.", "--engine", engine, "--json")
    result = json.loads(printed)
    assert (code, result["agent"], result["error"]["code"], result["error"]["node"]) == (1, "mine", "off_topic", "refuse")


def test_it_is_shown(command: Command):
    code, printed, err = command("show", "mine:agent", "--json")
    assert (code, err) == (0, "")
    shown = json.loads(printed)
    assert (shown["agent"], [node["name"] for node in shown["graphs"][0]["nodes"]]) == ("mine", list(graph.nodes))
    assert command("show", "mine:graph", "--json") == (0, printed, "")


def test_it_is_compared_with_its_own_document_or_with_another(command: Command, made: Path, tmp_path: Path):
    code, printed, err = command("verify", "mine:agent")
    assert (code, err) == (0, "")
    assert printed.splitlines()[-1].startswith("agrees\tmine: the rows are the document's\t")
    stricter = tmp_path / "stricter.md"
    stricter.write_text((made / "mine" / "document.md").read_text(encoding="utf-8").replace("a `Model`, once", "nothing"))
    code, printed, _ = command("verify", "mine:agent", "--document", str(stricter))
    assert (code, printed.splitlines()[-1].partition("\t")[0]) == (1, "BROKEN")


def test_it_can_be_talked_to(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{DELIVERY}\nWhat is the opening time?\n/path\n".encode())))
    code, printed, err = command("chat", "mine:agent", "--engine", "direct")
    assert (code, err) == (0, "")
    said, opening, path = printed.splitlines()
    assert (said, path) == (PARCEL, "draft_answer > choose_way > give_answer")
    assert "from 9 to 17" in opening


def test_what_is_neither_an_agent_nor_a_graph_is_refused(command: Command):
    code, printed, err = command("run", "mine:__name__", "hello")
    assert (code, printed, err) == (2, "", "agent_unknown: 'mine:__name__' is a str, not an Agent or a Graph.\n")


# What Interlock does with an agent


async def test_an_agent_and_its_graph_have_rules_of_their_own_in_one_application(engine: EngineName):
    async with Interlock(Settings(engine=engine, model="offline")) as app:
        bare, whole, again = await app.run(graph, DELIVERY), await app.run(agent, DELIVERY), await app.run(graph, DELIVERY)
    assert [one.output for one in (bare, whole, again)] == ["I have no answer to that.", PARCEL, "I have no answer to that."]
    assert (whole.agent, whole.metadata["topic"]) == ("scaffold", "delivery")


async def test_an_agent_is_streamed_recorded_replayed_and_exported(engine: EngineName, tmp_path: Path):
    async with Interlock(Settings(engine=engine, model="offline", data_dir=tmp_path / "data")) as app:
        events = [event async for event in app.stream(agent, DELIVERY)]
        assert events[-1]["data"]["output"]["output"] == PARCEL
        refused = await app.run(agent, "Tell me a joke.", record=tmp_path / "turn.jsonl")
        replayed = await app.replay(tmp_path / "turn.jsonl", graph=agent)
        assert (replayed.differences, replayed.result.error) == ((), refused.error)
        state = await app.langgraph(agent).ainvoke({"question": DELIVERY})
        assert state["reply"] == PARCEL


# What is refused


REFUSED = {
    "empty": ("", "name_unusable"),
    "an upper-case letter": ("Shop", "name_unusable"),
    "a digit first": ("1shop", "name_unusable"),
    "an underscore first": ("_shop", "name_unusable"),
    "a hyphen": ("my-shop", "name_unusable"),
    "a dot": ("my.shop", "name_unusable"),
    "a path that climbs": ("../shop", "name_unusable"),
    "a path from the root": ("/shop", "name_unusable"),
    "a letter of another alphabet": ("sh\u043ep", "name_unusable"),
    "a line break": ("shop\n", "name_unusable"),
    "half a character": ("shop\udcff", "name_unusable"),
    "too long": ("s" * 41, "name_unusable"),
    "a keyword": ("class", "name_unusable"),
    "an agent that is there": ("sam", "name_unusable"),
    "a module of Python's": ("json", "name_unusable"),
    "a module inside Python": ("sys", "name_unusable"),
    "a module of Python's on other machines": ("winreg", "name_unusable"),
    "a package that is installed": ("pydantic", "name_unusable"),
    "Interlock itself": ("interlock", "name_unusable"),
    "a folder with something in it": ("full", "folder_unusable"),
    "a file": ("file", "folder_unusable"),
    "a link to an empty folder": ("link", "folder_unusable"),
    "a link to nowhere": ("dangling", "folder_unusable"),
    "a module beside it": ("module", "folder_unusable"),
}


@pytest.mark.parametrize(("name", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_made_is_refused_and_nothing_changes(command: Command, tmp_path: Path, name: str, code: str):
    folder = tmp_path / "work"
    (folder / "full").mkdir(parents=True)
    (folder / "full" / "mine.txt").write_text("precious")
    (folder / "empty").mkdir()
    (folder / "file").write_text("precious")
    (folder / "link").symlink_to(folder / "empty")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "module.py").write_text("precious")
    before = sorted(folder.rglob("*"))
    exited, printed, err = command("new", "--in", str(folder), "--", name)
    assert (exited, printed) == (2, "")
    assert err.startswith(f"{code}: ")
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == [folder, *before]
    assert (folder / "full" / "mine.txt").read_text() == (folder / "file").read_text() == (folder / "module.py").read_text() == "precious"


@pytest.mark.parametrize("where", ["nowhere", "file", "a name that is longer than any may be " * 10])
def test_a_folder_that_does_not_exist_is_refused(command: Command, tmp_path: Path, where: str):
    (tmp_path / "file").touch()
    code, printed, err = command("new", "shop", "--in", str(tmp_path / where))
    assert (code, printed) == (2, "")
    assert err.startswith("folder_unusable: ")


@pytest.mark.parametrize("there", ["shop", "shop/__init__.py"])
def test_where_something_is_already_the_error_says_what_to_do(command: Command, tmp_path: Path, there: str):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).touch()
    code, _, err = command("new", "shop", "--in", str(tmp_path))
    made = tmp_path / "shop"
    assert (code, err) == (2, f"folder_unusable: '{made}' exists. Fix: use another name, or another folder by '--in'.\n")


def test_where_it_cannot_be_written_whole_nothing_is_left(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))  # some files fit, others do not
    try:
        with pytest.raises(FolderUnusable, match="cannot be created"):
            make("shop", tmp_path, from_template("shop"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@given(st.one_of(st.text(max_size=50), st.from_regex(r"[a-z_]\w{0,12}\n?"), st.sampled_from([*sys.stdlib_module_names, *keyword.kwlist])))
@example("shop")
def test_a_name_that_is_taken_can_be_imported_and_hides_nothing(name: str):
    try:
        check_name(name, Path("nowhere"))
    except InterlockError as error:
        assert isinstance(error, NameUnusable)  # noqa: PT017 - anything else is a bug
    else:
        assert name.isidentifier()
        assert name.isascii()
        assert name == name.lower()
        assert not keyword.iskeyword(name)
        assert name not in sys.stdlib_module_names
        assert name not in AGENTS


# From a document, and the smallest


OWN = """# orders

```mermaid
flowchart TD
    START([START]) --> read_order
    read_order -->|Read| approve
    read_order -->|Unreadable| reject
    approve -->|Approved| END([END])
    approve -->|Rejected| reject
    reject --> END
```

| node | may read | may write | may use | must not |
|---|---|---|---|---|
| `read_order` | the `text` | `order`, or the `reason` why it cannot be "read" | a `Model` | use `Human`, `Ledger` |
| `approve` | the `order` | `reply`, `reason` | `Human`, `Ledger` | ask a `Model` |
| `reject` | the `reason`, and the presence of an `order?` | `reply` | nothing | `branch`; use `Model`, `Human`, `Ledger` |
"""
DOCUMENTS: dict[str, tuple[str | Path, list[str]]] = {
    "sam": (ROOT / "src" / "interlock_agents" / "sam" / "document.md", []),
    "scaffold": (TEMPLATE / "document.md", []),
    "analyst": (ROOT / "src" / "interlock_agents" / "analyst" / "document.md", []),
    "puntini": (ROOT / "src" / "interlock_agents" / "puntini" / "document.md", []),
    "desk": (ROOT / "src" / "interlock_agents" / "desk" / "document.md", ["--graph", "orchestrator.handle_message"]),
    "an own one": (OWN, []),
}


@pytest.mark.parametrize(("document", "options"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_an_agent_from_a_document_builds_verifies_and_its_tests_run(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, document: str | Path, options: list[str]
):
    monkeypatch.chdir(tmp_path)
    if isinstance(document, str):
        Path("orders.md").write_text(document, encoding="utf-8")
        document = Path("orders.md")
    code, printed, err = command("new", "shop", "--from", str(document), *options)
    assert (code, err) == (0, "")
    assert {line.split()[0] for line in printed.splitlines() if line.startswith("  shop/")} == {
        path.as_posix() for path in Path("shop").iterdir()
    }
    code, printed, err = command("verify", "shop:agent")
    assert (code, err) == (0, ""), printed
    assert printed.splitlines()[-1].startswith("agrees\t")
    assert Path("shop/document.md").read_text(encoding="utf-8") == without_proofs(document.read_text(encoding="utf-8"))
    settings = ("--no-cache", "--config", ROOT / "pyproject.toml", "--ignore", "D401,PLR0917,RUF001,RUF003", tmp_path)
    checked = tool(BIN / "ruff", "check", *settings, folder=tmp_path)
    assert checked.returncode == 0, checked.stdout
    formatted = tool(BIN / "ruff", "format", "--no-cache", "--check", "--line-length", "88", tmp_path, folder=tmp_path)
    assert formatted.returncode == 0, formatted.stdout
    ran = tool(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "shop", folder=tmp_path)
    assert re.search(r"1 passed, \d+ xfailed", ran.stdout), ran.stdout


def test_a_node_from_a_document_says_its_duty(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(OWN, encoding="utf-8")
    command("new", "shop", "--from", "orders.md")
    code, _, err = command("run", "shop:agent", "two lamps", "--engine", "direct")
    assert code == 1
    assert err == (
        "node_failed (read_order): The node raised NotImplementedError: read_order: may read: the text; may write: order, or the reason"
        ' why it cannot be "read"; may use: a Model; must not: use Human, Ledger.\n'
    )
    made = {
        file: Path("shop", f"{file}.py").read_text(encoding="utf-8") for file in ("state", "nodes", "capabilities", "graph", "__init__")
    }
    assert "from interlock.capabilities import Human, Model\n" in made["nodes"]
    assert "class Ledger(Capability, Protocol):" in made["capabilities"]
    assert "class Human" not in made["capabilities"]
    assert "async def approve(order: str, *, human: Human, ledger: Ledger) -> Approved | Rejected:" in made["nodes"]
    assert "async def reject(reason: str, order: Present) -> RejectToEnd:" in made["nodes"]
    assert 'takes=("text",),\n    gives="reply",' in made["graph"]
    assert "pauses=True" in made["__init__"]


@pytest.mark.parametrize("said", ["", "nothing", "use `Model`", "be late"])
def test_what_a_document_does_not_forbid_is_added_where_it_follows_from_the_rest(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
):
    monkeypatch.chdir(tmp_path)
    before = OWN.replace("`branch`; use `Model`, `Human`, `Ledger`", said).replace("use `Human`, `Ledger`", "")
    Path("orders.md").write_text(before, encoding="utf-8")
    code, printed, err = command("new", "shop", "--from", "orders.md")
    assert (code, err) == (0, "")
    model = "" if "Model" in said else "`Model`, "
    added = printed.partition("from the rest:\n\n")[2].partition("\n\nNext")[0].splitlines()
    assert added == ["  `read_order`: `Human`, `Ledger`", f"  `reject`: {model}`Human`, `Ledger`, `branch`"]
    document = Path("shop/document.md").read_text(encoding="utf-8")
    words = "" if said in {"", "nothing"} else f"{said}; "
    assert f"| {words}{model}`Human`, `Ledger`, `branch` |\n" in document
    code, printed, err = command("verify", "shop:agent")
    assert (code, err) == (0, ""), printed
    assert printed.splitlines()[-1].startswith("agrees\tshop: the rows are the document's")
    assert Path("orders.md").read_text(encoding="utf-8") == before


WRONG_DOCUMENTS = {
    "no flowchart": (OWN.replace("```mermaid", "```text"), "has 0 Mermaid flowcharts"),
    "a node without duties": (OWN.replace("| `reject` |", "| `decline` |"), "node 'reject' of the flowchart has no line in the table"),
    "a prohibition that contradicts": (
        OWN.replace("| ask a `Model` |", "| ask a `Model`; `branch` |"),
        "node 'approve' has `branch` under 'must not'",
    ),
    "a field that no outcome can write": (
        OWN.replace("| nothing | `branch`", "| nothing | `branch`")
        .replace("reject --> END", "reject -->|Approved| END")
        .replace("| `reply`, `reason` | `Human`", "| `reason` | `Human`"),
        "node 'reject' may write 'reply', but all of its outcomes are also returned by nodes that may not",
    ),
    "a label that is no name": (OWN.replace("|Unreadable|", "|not readable|"), "'not readable' is not a Python name"),
    "a node that is not reached": (
        OWN.replace("read_order -->|Read| approve\n", "read_order -->|Read| reject\n"),
        "no path leads from START to node 'approve'",
    ),
    "a field and a node of a name": (OWN.replace("`order`", "`approve`"), "'approve' is the name of a node and of a field"),
    "a name of Interlock's": (OWN.replace("Approved", "Outcome"), "'Outcome' is a name of Interlock or Python"),
    "a node with a hyphen": (
        OWN.replace("--> read_order", "--> read-order[Read an order]"),
        "cannot be read at '-order[Read an order]'. The name of a node is a Python name. Fix: write 'read_order' instead of 'read-order'.",
    ),
    "two graphs": (OWN + OWN, "has several flowcharts. Fix: name the graph by '--graph'"),
}


@pytest.mark.parametrize(("document", "says"), WRONG_DOCUMENTS.values(), ids=WRONG_DOCUMENTS.keys())
def test_a_document_that_no_rows_can_agree_with_is_refused_with_the_reason(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, document: str, says: str
):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(document, encoding="utf-8")
    code, printed, err = command("new", "shop", "--from", "orders.md")
    assert (code, printed, err.partition(":")[0]) == (2, "", "document_invalid")
    assert says in err
    assert not Path("shop").exists()


def test_a_document_that_does_not_exist_is_named_once(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    said = "document_invalid: The document 'none.md' cannot be read: No such file or directory.\n"
    assert command("new", "shop", "--from", "none.md") == (2, "", said)


@pytest.mark.parametrize(
    ("misspelt", "says"),
    [
        (("Ledger", "Ledger"), "New capabilities: `Ledger`\n"),
        (("`Model`", "`Modell`"), "New capabilities: `Modell` (did you mean `Model`?), `Ledger`\n"),
    ],
)
def test_new_capabilities_are_named_with_those_that_were_perhaps_meant(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, misspelt: tuple[str, str], says: str
):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(OWN.replace(*misspelt), encoding="utf-8")
    code, printed, _ = command("new", "shop", "--from", "orders.md")
    assert code == 0
    assert says in printed


def test_a_method_that_is_misspelt_in_a_generated_adapter_is_missing(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(OWN, encoding="utf-8")
    command("new", "shop", "--from", "orders.md")
    adapters = Path("shop/adapters.py")
    adapters.write_text(adapters.read_text(encoding="utf-8").replace("def call", "def cal"), encoding="utf-8")
    code, _, err = command("run", "shop:agent", "two lamps", "--engine", "direct")
    assert (code, "LocalLedger" in err, "call" in err) == (2, True, True), err


def test_the_steps_to_a_written_agent_are_listed(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(OWN, encoding="utf-8")
    command("new", "shop", "--from", "orders.md")
    readme = Path("shop/README.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\d)\.", readme, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    for said in ("Closed fields (`Literal`, `bool`)", "`@guard`", "`Ledger`", "`offline=`", "remove each `xfail` mark", "`MISSING`"):
        assert said in readme


def test_the_smallest_agent_runs_and_its_tests_pass(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert command("new", "shop", "--minimal")[0] == 0
    assert {path.name for path in Path("shop").iterdir()} == {"__init__.py", "test_shop.py"}
    assert command("run", "shop:agent", "Ada", "--engine", "direct") == (0, "Hello, Ada!\n", "")
    assert command("verify", "shop:agent")[0] == 0
    assert tool(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "shop", folder=tmp_path).returncode == 0


def test_the_type_checker_finds_nothing_in_agents_from_documents(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    Path("orders.md").write_text(OWN, encoding="utf-8")
    command("new", "orders", "--from", "orders.md")
    command("new", "numbers_of_a_shop", "--from", str(DOCUMENTS["analyst"][0]))  # uses capabilities that the library does not provide
    project = {"include": [str(tmp_path)], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(project))
    checked = tool(BIN / "basedpyright", "-p", tmp_path, "--pythonpath", sys.executable, "--outputjson", folder=tmp_path)
    report = json.loads(checked.stdout)
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == len(list(tmp_path.glob("*/*.py")))
