"""The command parser of the offline rules: what a text asks a worker to do with files.

A command is recognised only if every word of the text belongs to it. A text that begins like a command but has other words in
it is `unclear`, and nothing is done: half of a command is never carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from interlock_agents.gateway.search import is_content_word

__all__ = ["SIDES", "Command", "parse_command"]

_Kind = Literal["list", "read", "folder", "folders", "tree", "open", "search", "find", "write", "edit", "delete"]
Kind = _Kind | Literal["help", "reference", "unsupported", "unclear", "question"]

MAX_LENGTH = 400
"""Characters of a command without what it quotes; a longer text is a question."""

_QUOTE = r"\"[^\"]*\"|'[^'\n]+'(?!\w)|`[^`]*`|“[^”]*”|\u2018[^\u2019]*\u2019"
_ENDINGS = r"md|txt|env|csv|json|toml|ya?ml|log|py|rst|html?|pdf|docx?|xlsx?"
_GLOB = r"[\w./*?\[\]-]*\*[\w./*?\[\]-]*"
_PATH = rf"(?<!\.)\.\.(?![\w./…])|\.{{0,2}}/[^\s\"'`,;!?()“”]*|(?:[\w-]+/)+[\w.-]*|[\w-]+(?:\.[\w-]+)*\.(?:{_ENDINGS})\b"
_ONLY_PATH = re.compile(_PATH, re.IGNORECASE)
_QUOTED_PATH = re.compile(rf"/[^\n\"*?]+|[^\n\"*?]+\.(?:{_ENDINGS})", re.IGNORECASE)
_ENDS_LIKE_A_FILE = re.compile(rf"\.(?:{_ENDINGS})$", re.IGNORECASE)
_TOKEN = re.compile(rf"(?P<Q>{_QUOTE})|(?P<G>{_GLOB})|(?P<P>{_PATH})|(?P<W>[^\W_]+(?:['\u2019_-][^\W_]+)*)|\S", re.IGNORECASE)

_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|(?:can|could|would|will) you|(?:can|could|may) i|i (?:want|need|would like) to|i'd like to"
    r"|let me|help me(?: to)?|now|then|so|ok|okay|just|quickly|kindly|admin|docs|go ahead and) )+"
    r"|(?: (?:please|pls|for me|now|thanks|thank you|again))+$"
)
_WHOSE = (
    r"(?:the|my|our|your|all|every|any|these|those|of|an?|own|new|whole|full|complete"
    r"|admins?|admin's|customers?|customers'|customer's|users?|users'|user's)"
)
_MINE = rf"(?:{_WHOSE} )*"
_PAGE = r"(?:file|page|document|doc|note|article)"
_THINGS = rf"(?:{_PAGE}s?|documentation|folders?|director(?:y|ies)|everything|handbook|knowledge base)"
_NAMES = rf"(?:{_PAGE}s|docs?|documentation|folders?|director(?:y|ies)|everything|handbook|knowledge base)"
_CONTENTS = rf"{_MINE}(?:(?:contents?|text) (?:of )?)?{_MINE}"
_WHERE = rf"(?: (?:in|of|from|inside|under|within|at) {_MINE}(?:P(?: {_THINGS})?|{_THINGS}))"
_HAVE = (
    r"(?:you|we|i) have|do (?:you|we|i|(?:our |the )?(?:customers|users)) have|have you got|can i (?:read|see)|i can (?:read|see)|you know"
)
_THERE = rf"(?: (?:{_HAVE}|there are|there|are there|exists?|are available|available|here|for (?:the |our |a )?(?:customers?|users?)))"
_SHOW_NAMES = r"(?:show|display|print|view|see|give|get)(?: me| us)?"
_SHOW = r"(?:show|display|print|view|see|give|get|open|read|cat|type|output|fetch)(?: me| us)?"
_SEARCH = rf"(?:search|grep|look|find)(?: through)?(?: (?:in )?{_MINE}{_THINGS})?"
_WORD = r"the (?:words?|text|phrase) "
_LIKE = r"(?:that )?(?:match|matching|called|named|like)"
_SWAP = r"(?:replace|change) Q (?:with|by|to|into) Q"

# Q stands for quoted text, P for a path, G for a pattern of file names, W for any word but a conjunction.
_GRAMMAR: tuple[tuple[Kind, str], ...] = (
    ("tree", rf"tree|ls recursively|(?:list|{_SHOW_NAMES}) {_MINE}{_THINGS} recursively"),
    ("folders", rf"(?:list|{_SHOW_NAMES}|what|which) {_MINE}(?:folders|directories)(?: are)?{_THERE}*"),
    ("list", rf"(?:ls|dir)(?: -\w+)?(?: P)?|ls {_MINE}{_THINGS}"),
    ("list", rf"(?:list|{_SHOW_NAMES}) {_MINE}{_NAMES}(?: names)?{_WHERE}?{_THERE}*|open {_MINE}(?:folder|directory)"),
    ("list", rf"list(?: me)?(?: {_CONTENTS}P(?: {_THINGS})?| what is{_WHERE})?"),
    ("list", rf"(?:what|which)(?: (?:are|kinds? of|sorts? of))?(?: {_WHOSE})* {_THINGS}{_THERE}*(?: (?:are|is))?{_WHERE}?{_THERE}*"),
    ("list", rf"(?:what|which)(?: (?:are|is|can i find|{_HAVE}))*{_WHERE}|what's{_WHERE}"),
    ("read", rf"{_SHOW} {_CONTENTS}(?:{_THINGS} )?P(?: (?:and )?P)*|P(?: P)*"),
    ("read", r"what (?:does|do|did) P(?: (?:and )?P)* (?:say|says|contain|have|has)(?: in it)?|(?:what is|what's)(?: written)? in P"),
    ("folder", rf"(?:list|ls|{_SHOW}|what is in|what's in) {_CONTENTS}(?P<folder>W) (?:folder|directory)"),
    ("folder", rf"(?:list|ls) {_MINE}(?P<folder>W)"),
    ("folder", rf"(?:list|{_SHOW}|what|which) {_MINE}{_THINGS}(?: are)? in {_MINE}(?P<folder>W)(?: (?:folder|directory))?"),
    ("open", rf"(?:read|open|cat)(?: me)? {_MINE}(?P<name>(?!{_THINGS}$)W)"),
    ("open", rf"{_SHOW} {_CONTENTS}(?P<name>W(?: W)?) {_PAGE}"),
    (
        "find",
        rf"(?:(?:find|list|ls|{_SHOW_NAMES}|which|glob) )?{_MINE}(?:{_THINGS} )?(?:{_LIKE} )?G(?: {_THINGS})?",
    ),
    (
        "search",
        rf"(?:{_SEARCH}(?: for)?|where)(?: is| are| does)? (?:mentions? of |{_WORD})?Q(?: mentioned| written| appear| occur)?{_WHERE}?",
    ),
    ("search", rf"(?!find){_SEARCH} for (?:{_WORD})?(?P<phrase>W(?: W){{0,5}}?){_WHERE}?"),
    ("search", rf"(?:search|grep) (?P<phrase>W){_WHERE}?"),
    ("search", rf"(?:which|what) {_MINE}{_THINGS} (?:contains?|has|have|mentions?|includes?) (?:{_WORD})?(?:Q|(?P<phrase>W))"),
    ("write", rf"(?:write|put|save|store) Q (?:to|into|in) {_MINE}(?:file )?P"),
    (
        "write",
        rf"(?:create|make|write) {_MINE}(?:{_PAGE} )?P (?:with|containing|saying|that says) (?:the )?(?:(?:text|contents?|words?) )?Q",
    ),
    ("edit", rf"{_SWAP} in {_MINE}(?:{_PAGE} )?P|in P {_SWAP}"),
    ("delete", rf"(?:delete|remove|erase|rm) {_MINE}(?:(?:{_PAGE}|folder) )?P"),
)
_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern.replace("W", r"(?!(?:and|or|but|then|all|any|each|every|the|this|that)\b)[^\sQPG]+")))
    for kind, pattern in _GRAMMAR
)

SIDES = frozenset({"admin", "docs"})  # each side is the root of its worker's files
_FLAGS = re.compile(r"(?i)^(\s*(?:ls|dir|tree|cat))(?: -[a-z]+)+(?!\S)")  # which change how things are shown, and not what
_ALL_BELOW = re.compile(r"^\s*ls -[a-zA-Z]*R[a-zA-Z]*\s*$")
_COMPOUND = re.compile(
    rf"\b(?:and|then) (?:show|list|read|open|print|give|delete|remove|write|replace|tell)\b|^show.*\b{_PAGE} and\b.*\b{_PAGE}$"
)
_BEGINS = re.compile(
    r"(?:write|put|save|store|create|make|replace|change|edit|delete|remove|erase|rm|search|grep|ls|dir|list|read|open|cat|print"
    r"|overwrite|update|modify|correct|fix|publish|share|merge|clear|touch|cd|pwd|whoami|head|tail)\b"
)
_UNSUPPORTED: Mapping[str, str] = {
    "append": r"append|add .*\b(?:to|into|in|at)\b.*|insert",
    "rename or move": r"rename|move|mv",
    "copy": r"copy|cp|duplicate|(?:make|create) (?:a |another )?(?:backup|copy)|back up",
    "summarise": r"summari[sz]e|sum up|give me (?:a|the) (?:summary|gist)|(?:a )?summary of|tl;?dr",
    "translate": r"translate",
    "explain": r"explain",
    "compare": r"compare|diff",
    "do that for you": r"(?:cancel|book|reserve|refund|reset|register|pay|rebook) (?:me|my|our|us|a|an|the|this|that)\b.*",
    "look into an account": rf"(?:what(?:'s| is| are| was) (?:the \w+ of )?|see |know )my (?!own |admin |{_THINGS}\b).*",
    "tell who may read what": r"(?:who can|can|may|could) (?!i\b|you\b|we\b).*\b(?:see|read|access|open|view)\b.*",
    "count": r"count|how many (?:files|pages|documents|words|lines|folders|notes)",
    "sort": r"sort",
    "send": r"send|e-?mail|mail|forward|(?:tell|inform|notify|ask) (?:the |our |all |every )*(?:customers?|users?|everyone)",
    "make folders": r"mkdir|(?:create|make)(?: me)?(?: a| the)?(?: new)? (?:folder|directory)",
    "run programs": r"run|execute|install|deploy|restart|sudo|curl|python|bash",
    "undo": r"undo|restore|revert|recover",
    "change permissions": r"chmod|chown",
    "encrypt or decrypt": r"encrypt|decrypt",
    "fetch from elsewhere": r"download|upload|browse",
}
_ABOUT_ONESELF = re.compile(rf"(?:can|could|may) i\b(?!.*\b{_THINGS}\b)")  # "can I move a booking?" asks what the files say
_ASKED_OF_ME = re.compile(r"(?:\w+ )?(?:can|could|would|will) you\b")
_ASKS_HOW = re.compile(rf"how (?:do|can|could|would|to)(?: (?:i|we|you))? (?=\w+ (?:\w+ ){{0,3}}{_THINGS}$)")
_CHANGES = frozenset({"write", "edit", "delete"})
_SUM = re.compile(r"\d\s*[+*\u00d7\u00f7^]\s*\d|^\W*(?:what is |what's |calculate )?\d+\s*[-/x]\s*\d+\W*$", re.IGNORECASE)
_ORDINAL = r"first|second|third|fourth|fifth|sixth|last|next|previous|other|same|latest|newest|top"
_REFERENCE = re.compile(
    rf"(?:{_SHOW}|list|delete|remove|erase|rm|search|summari[sz]e|close|do|try|repeat)"
    rf" (?P<word>it|that|this|them|those|these|(?:that|this|the) (?:one|{_PAGE})"
    rf"|(?:the )?(?:{_ORDINAL})(?: (?:one|{_PAGE}|folder|result))?)"
    r"(?: (?:again|too|instead))?"
)
_PRONOUN = re.compile(
    r"\b(?P<word>it|they|them|he|she|(?:that|this|these|those)(?= (?:is|are|was|were|has|have|does|do|did|can|could|will|would|should|may"
    r"|be|mean|cost|take|work|per|in|on|for|by|with|too|again|then|also|free|wrong|right|true)\b|$))\b(?!.* to\b)"
)
_REFUSED = tuple((what, re.compile(rf"(?:{pattern})(?!\w)", re.IGNORECASE)) for what, pattern in _UNSUPPORTED.items())


@dataclass(frozen=True)
class Command:
    """One thing to do: on which paths, with what text, and with what in its place."""

    kind: Kind
    paths: tuple[str, ...] = ()
    text: str = ""
    new: str = ""


@dataclass(frozen=True)
class _Tokens:
    """A text in which quotes, paths and patterns are replaced by one letter each."""

    plain: str
    quotes: tuple[str, ...]
    paths: tuple[str, ...]
    patterns: tuple[str, ...]
    named: tuple[str, ...]
    """The paths as they were written."""


def parse_command(text: str) -> Command:
    """Return the command that a text is as a whole. A text that is no command is a question that the files may answer."""
    text_only = _FLAGS.sub(r"\1", _ALL_BELOW.sub("ls recursively", text))
    tokens = _tokens(text_only)
    if len(tokens.plain) > MAX_LENGTH:
        return Command("question", text=text)
    plain = _without_politeness(tokens.plain)
    if (reference := _REFERENCE.fullmatch(plain)) is not None:
        return Command("reference", text=reference["word"])
    command = _recognised(tokens) or _recognised(_tokens(text_only, quoted_paths=True))
    if command is not None:
        return Command("unclear", text=text) if command.kind in _CHANGES and _asks_whether(text, tokens.plain) else command
    if _SUM.search(text) is not None:
        return Command("unsupported", text="calculate")
    asked = _ASKS_HOW.sub("", plain, count=1)
    for what, pattern in _REFUSED:
        if pattern.match(asked) and not _ABOUT_ONESELF.match(tokens.plain):
            return Command("unsupported", tokens.paths, what)
    if asked != plain:
        return Command("help")
    if _BEGINS.match(plain) or _COMPOUND.search(plain) or any(map(_is_folder, tokens.named)):
        return Command("unclear", text=text)
    pronoun = _PRONOUN.search(plain)
    if pronoun is not None and not any(map(is_content_word, plain[: pronoun.start()].split())):
        return Command("reference", text=pronoun["word"])
    return Command("question", text=text)


def _asks_whether(text: str, plain: str) -> bool:
    """Return whether a text asks about a change: "can I delete a.md" and "delete a.md?" must not delete it."""
    return re.match(r"(?:can|could|may) i\b", plain) is not None or (text.rstrip().endswith("?") and _ASKED_OF_ME.match(plain) is None)


def _without_politeness(plain: str) -> str:
    while (shorter := _POLITE.sub("", plain)) != plain:
        plain = shorter
    return plain


def _recognised(tokens: _Tokens) -> Command | None:
    """Return the command that a rule recognises in all of a text."""
    plain = _without_politeness(tokens.plain)
    for kind, pattern in _RULES:
        if (found := pattern.fullmatch(plain)) is not None:
            return _command(kind, tokens, next((value.strip() for value in found.groupdict().values() if value), ""))
    return None


def _is_folder(path: str) -> bool:
    """Return whether a path, as written, is a folder. A question about a folder cannot be answered by looking up words."""
    return path.startswith(("/", "..")) and _ENDS_LIKE_A_FILE.search(path.rstrip(".:")) is None


def _tokens(text: str, *, quoted_paths: bool = False) -> _Tokens:
    """Split a text. A quoted path may have spaces in it where `quoted_paths` is set; otherwise such a quote is text."""
    is_path = _QUOTED_PATH if quoted_paths else _ONLY_PATH
    found: dict[str, list[str]] = {"Q": [], "P": [], "G": []}

    def letters() -> Iterator[str]:
        for token in _TOKEN.finditer(text):
            kind = token.lastgroup
            if kind == "W":
                yield token[0].lower().replace("\u2019", "'")
            elif kind == "Q" and is_path.fullmatch(token[0][1:-1]):
                found["P"].append(token[0][1:-1])
                yield "P"
            elif kind is not None:
                found[kind].append(token[0])
                yield kind

    plain = " ".join(letters())
    quotes = tuple(quote[1:-1] for quote in found["Q"])
    return _Tokens(plain, quotes, tuple(map(_rooted, found["P"])), tuple(found["G"]), tuple(found["P"]))


def _rooted(path: str) -> str:
    """Return a path as seen from the root, without the punctuation that ends a sentence."""
    path = path if path.endswith("..") else path.rstrip(".:") or "/"
    return path if path.startswith(("/", ".")) else f"/{path}"


def _command(kind: Kind, tokens: _Tokens, named: str) -> Command:
    """Build the command that a rule recognised."""
    match kind:
        case "list" if any(map(_ENDS_LIKE_A_FILE.search, tokens.paths)):
            return _read(tokens)
        case "list":
            return Command("list", tokens.paths or ("/",))
        case "folders":
            return Command("list", ("/",), "folders")
        case "read":
            return _read(tokens)
        case "folder":
            return Command("list", ("/" if named in SIDES else f"/{named}",))
        case "open":
            return Command("open", text=named)
        case "tree":
            return Command("find", text="**/*")
        case "find":
            return Command("find", text=tokens.patterns[0])
        case "search":
            return Command("search", tokens.paths, tokens.quotes[0] if tokens.quotes else named)
        case _:
            return Command(kind, tokens.paths, *tokens.quotes[:2])


def _read(tokens: _Tokens) -> Command:
    """Read files; a path that ends with a slash is a folder, and is listed."""
    kind: Kind = "list" if len(tokens.paths) == 1 and tokens.paths[0].endswith("/") else "read"
    return Command(kind, tokens.paths)
