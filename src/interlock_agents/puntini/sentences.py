"""A goal in plain words: quoted texts are replaced by marks, then sentences are split into words. Replies to what is not a goal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["COURTESY", "MAX_LENGTH", "is_cypher", "is_question", "outside_request", "sentences", "small_talk", "unreadable", "with_marks"]

MAX_LENGTH = 2_000
"""How many characters a goal in plain sentences may have."""

_QUOTE = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<![^\s(])['\u2018]([^'\u2019\n]+)['\u2019](?=[\s.,;:!?)]|$)")
_CYPHER = re.compile(
    r"\s*(?:(?:optional\s+)?match\s*(?:\(|\w+\s*=)|unwind\s.*\bas\b|(?:merge|create|delete|detach\s+delete)\s*\("
    r"|return\s+(?:[\d'\"$\[{(*]|\w+\s*\()|with\s+\S+\s+as\s.*\breturn\b|call\s+[\w.]+\s*\(|load\s+(?:csv|from)\b"
    r"|drop\s+(?:table|index|constraint)\b|copy\s+\w+\s+(?:from|to)\b)",
    re.IGNORECASE | re.DOTALL,
)
_QUESTION = re.compile(r"(?i)\s*(?:how|who|what|which|is|are|does|did|was|were|has|have|when|where|why|whose)\b")
_SENTENCE = re.compile(r"[.!?;]+(?=\s|$)|\n")
_WORD = re.compile(
    r"\d{1,3}(?:,\d{3})+(?![\d,])|,|['\u2019](?:s\b|(?=\s|$))|(?<=\s)[<>=!]=?|[=<>]=?|:(?=\s|$)|&(?=\s)|(?:(?!['\u2019]s\b|['\u2019](?:\s|$)|:(?:\s|$))[^\s,=<>])+|\S"
)
_CONTRACTED = {
    "what's": "what is", "who's": "who is", "there's": "there is", "that's": "that is", "it's": "it is", "i'd": "i would",
    "whats": "what is", "whos": "who is", "wheres": "where is", "hows": "how is", "how's": "how is",
}  # fmt: skip
_CONTRACTIONS = re.compile(rf"(?i)(?<!\S)(?:{'|'.join(_CONTRACTED)})(?!\S)")
_OPENING = (
    r"please|kindly|pls|then|also|and|now|next|first|finally|ok|okay|so|well|hi|hello|hey|hi there|hello there|hey there|thanks|thank you"
    r"|hey puntini|hi puntini|hello puntini|puntini|great|cool|perfect|good morning|good evening|good afternoon|just|just quickly|alright"
)
_REQUEST = (
    r"(?:can|could|would|will) you(?: please| kindly| just)?(?: tell me(?! about)| let me know)?"
    r"|(?:i|we) (?:want|need)(?: you)? to|(?:i|we) would like(?: you)? to|(?:i|we)'d like(?: you)? to|would you mind|let's|let us"
    r"|do you know(?! about)|i want to know|i would like to know|i'd like to know|(?:please )?tell me(?! about)|i wonder"
)
_POLITE = re.compile(rf"(?i)^(?:(?:{_OPENING})(?:\s*,\s*|\s+))*(?:(?:{_REQUEST})(?:\s*,\s*|\s+))?(?:(?:please|also|then|now)\s+)*")
_CLOSING = re.compile(r"(?i)(?:\s*,\s*|\s+)(?:please|pls|thanks|thank you|thx|for me|ok|okay|right now|now|will you|would you)$")
_COURTESY_WORD = re.compile(
    r"(?i)(?:hi|hello|hey|thanks|thank|you|thx|please|ok|okay|great|cool|perfect|good|morning|evening|afternoon|nice|there|puntini|sorry),*"
)

_CAN = (
    "I keep a graph of things and how they are connected. Tell me what there is ('Create a project Apollo with tasks Design and Build'), "
    "how it is connected ('Assign Ada to Design', 'Build depends on Design'), what changes ('Set the status of Design to done', "
    "'Rename Design to Draft', 'Delete the task Build and its edges'), and ask about it ('How many tasks does Apollo have?', "
    "'Who is assigned to Design?', 'Is Build connected to Design?')."
)
_ONLY = "I only keep a graph of things and how they are connected, so I cannot {}. I can create, connect, change, delete and find nodes."
COURTESY = "Good. What is next for the graph?"
_REPLIES = {
    f"Hello! {_CAN}": r"""
        (?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|moin|yo)(?: there| puntini| all| everyone| again)?
    """,
    f"Fine, thank you. {_CAN}": r"""
        (?:hi |hello |hey )?(?:puntini )?how are you(?: doing)?(?: today)?
        how is it going|how do you do|what is up|whats up
    """,
    "You are welcome.": r"""
        (?:ok(?:ay)? |great |perfect |cool )?(?:many )?(?:thanks|thank you|thx|ty|cheers)(?: a (?:lot|bunch)| \w+ much| puntini| again)*
    """,
    "Goodbye. The graph stays as it is.": r"(?:bye|goodbye|good bye|see you|see you later|good night|cu|ciao)(?: puntini)?",
    _CAN: r"""
        help(?: me)?|i need help|can you help(?: me)?|commands?|usage|examples?|what now|show me what you can do|what are my options
        what (?:can|do) (?:you|i) (?:do|say|ask|type)(?: here| for me)?|what are you able to do
        how (?:does this|do you|does it) work|how (?:can|do) i (?:use (?:this|you|it)|start|begin)
        how (?:can|do) i (?:create|add|connect|link|change|rename|delete|remove|find|ask)(?: something| things| an? \w+)?
    """,
    f"I am puntini, an agent that turns what you say into steps on a graph. Without a language model I follow a small grammar. {_CAN}": r"""
        who are you|what are you|what is this|(?:what|who) is puntini|who is this|introduce yourself|what is your name
        are you (?:a |an )?(?:bot|human|robot|ai|real|person|chatgpt)
    """,
    COURTESY: r"""
        ok|okay|k|great|cool|nice|perfect|good|fine|awesome|wonderful|well done|good job
        got it|i see|alright|super|lol|haha|wow|hmm+|excellent
    """,
    "There is no open question, and nothing was changed. Say what is to be in the graph, or ask about it.": r"""
        yes|no|no thanks|no thank you|yep|nope|yeah|sure|maybe|never mind|nevermind|forget it|cancel|stop|abort|nothing
    """,
    f"I am here. {_CAN}": r"test|testing|ping|hello world",
    "No problem. Nothing was changed.": r"sorry|my bad|oops|excuse me",
}
_OUTSIDE = {
    "tell you about the weather": r"weather|temperature outside|forecast|raining|sunny",
    "send or read messages": r"""
        ^e-?mail|(?:send|write|read|check|forward)\b.*e-?mails?|(?:send|write) (?:\w+ )?(?:a |an )?(?:mail|message|sms|text)
        text (?:message|him|her)|(?:call|phone|ring) (?:him|her|them|me)
    """,
    "write such texts": r"(?:write|compose|sing|tell|give)\b.*\b(?:poem|song|story|haiku|joke|limerick|essay|blog post|lyrics|rap)",
    "translate": r"translate|translation",
    "look up news or prices": r"news|headlines|stock price|bitcoin|exchange rate",
    "tell the time or the date": r"what time is it|current time|what day is it|what is the date|today's date|what year is it",
    "remind you of anything": r"remind me|set (?:a |an )?(?:alarm|timer|reminder)|wake me|calendar entry",
    "do things outside of the graph": r"book (?:a|me)|order (?:a |me )(?:a )?\w+|buy me|play (?:some )?music|turn (?:on|off)",
    "use the internet": r"browse|google|search the (?:web|internet)|open (?:the )?(?:website|browser)|download",
    "answer questions about the world": r"capital of|meaning of life|why is the sky|who won|president of",
}
_OUTSIDE_VERBS = re.compile(
    r"(?:send|email|e-mail|mail|write|compose|tell|sing|translate|play|order|book|buy|call|phone|remind|wake|turn|google|browse|search|what"
    r"|who|why|how|is|will|when|where|give|do|can|open|download|set a|set an)\b"
)
_TO_AGENT = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|puntini|and|also|then)[\s,]+)*"
    r"(?:(?:can|could|would|will) you (?:please )?(?:tell me |give me |show me )?|i (?:want|need|would like) you to )?(?:please )?"
)
_LONGEST_REQUEST = 200


def is_cypher(text: str) -> bool:
    """Return whether a goal is a Cypher query, which is run as it is."""
    return _CYPHER.match(text[:MAX_LENGTH]) is not None


def is_question(text: str) -> bool:
    """Return whether a goal looks like a question."""
    return text.rstrip().endswith("?") or _QUESTION.match(text) is not None


def unreadable(text: str) -> str:
    """Return why a goal cannot be read at all, or an empty text."""
    if len(text) > MAX_LENGTH:
        return f"The goal has {len(text):,} characters; without a model I read {MAX_LENGTH:,}."
    if any(unicodedata.category(letter) in {"Cs", "Co", "Cc"} for letter in text if letter not in "\n\r\t"):
        return "The goal has characters that are not text."
    return ""


def with_marks(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace each quoted text by a mark, and return the quoted texts in the order of their marks."""
    quoted: list[str] = []

    def marked(match: re.Match[str]) -> str:
        quoted.append(next(group for group in match.groups() if group is not None))
        return f" {chr(0xE000 + len(quoted) - 1)} "

    return _QUOTE.sub(marked, text), tuple(quoted)


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence, without polite phrases. Punctuation marks are words of their own."""
    for sentence in _SENTENCE.split(text):
        plain = _POLITE.sub("", _expanded(" ".join(sentence.split()).strip(" ,")), count=1)
        while (shorter := _CLOSING.sub("", plain)) != plain:
            plain = shorter
        words = _WORD.findall(plain)
        if not all(map(_COURTESY_WORD.fullmatch, words)):
            yield words


def _expanded(text: str) -> str:
    return _CONTRACTIONS.sub(lambda match: _CONTRACTED[match[0].casefold()], text.replace("\u2019", "'"))


def _either(lines: str) -> str:
    return "|".join(line.strip() for line in lines.strip().splitlines())


def small_talk(text: str) -> str:
    """Return the reply to a text that is not a goal; an empty text if it may be one."""
    plain = " ".join(re.sub(r"[^\w\s'-]+", " ", _expanded(text.casefold())).split())
    if not plain:
        return f"I am here. {_CAN}" if re.search(r"[?!]", text) else ""
    return next((reply for reply, said in _REPLIES.items() if re.fullmatch(rf"(?:{_either(said)})(?: please)?", plain)), "")


def outside_request(text: str) -> str:
    """Return the reply to a request that has nothing to do with a graph, if a text that was not understood looks like one."""
    request = _TO_AGENT.sub("", " ".join(text.casefold().split()))
    if len(text) > _LONGEST_REQUEST or not _OUTSIDE_VERBS.match(request):
        return ""
    return next((_ONLY.format(what) for what, said in _OUTSIDE.items() if re.search(rf"(?<!\w)(?:{_either(said)})(?!\w)", request)), "")
