"""What is said to puntini that is no goal: greetings, thanks, questions about it, and what has nothing to do with a graph."""

from __future__ import annotations

import re

__all__ = ["COURTESY", "is_courtesy", "outside", "small_talk"]

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
_VERBS = (
    r"(?:send|email|e-mail|mail|write|compose|tell|sing|translate|play|order|book|buy|call|phone|remind|wake|turn|google|browse|search|what"
    r"|who|why|how|is|will|when|where|give|do|can|open|download|set a|set an)"
)
_POLITE = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|puntini|and|also|then)[\s,]+)*"
    r"(?:(?:can|could|would|will) you (?:please )?(?:tell me |give me |show me )?"
    r"|i (?:want|need|would like) you to )?(?:please )?"
)
_LONGEST = 200
_COURTESY = re.compile(
    r"(?:hi|hello|hey|thanks|thank|you|thx|please|ok|okay|great|cool|perfect|good|morning|evening|afternoon|nice|there|puntini|sorry)"
)


def _either(patterns: str) -> str:
    return "|".join(line.strip() for line in patterns.strip().splitlines())


def small_talk(text: str) -> str:
    """Reply to what is no goal; an empty text where it may be one."""
    plain = re.sub(r"[^\w\s'-]+", " ", text.casefold().replace("\u2019", "'").replace("what's", "what is").replace("how's", "how is"))
    plain = " ".join(plain.split())
    if not plain:
        return f"I am here. {_CAN}" if re.search(r"[?!]", text) else ""
    for reply, said in _REPLIES.items():
        if re.fullmatch(rf"(?:{_either(said)})(?: please)?", plain):
            return reply
    return ""


def outside(text: str) -> str:
    """Say that a request has nothing to do with a graph, if it looks so: for what was not understood otherwise."""
    asked = _POLITE.sub("", " ".join(text.casefold().split()))
    if len(text) <= _LONGEST and re.match(rf"{_VERBS}\b", asked):
        for what, said in _OUTSIDE.items():
            if re.search(rf"(?<!\w)(?:{_either(said)})(?!\w)", asked):
                return _ONLY.format(what)
    return ""


def is_courtesy(words: list[str]) -> bool:
    """Tell whether a sentence has only words that mean nothing for the graph."""
    return all(_COURTESY.fullmatch(word.casefold().strip(",")) for word in words)
