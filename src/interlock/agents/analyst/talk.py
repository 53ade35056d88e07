"""What is said to the analyst beside questions about data, and what the offline rules say to it."""

from __future__ import annotations

import re
from typing import Any, Literal

__all__ = ["ABOUT", "Talk", "answered", "talk_in", "without_greeting"]

Talk = Literal["greeting", "thanks", "bye", "praise", "wellbeing", "help", "identity", "history", "sql", "source", "sorry", "no"]

ABOUT = (
    "I answer questions about the demo shop's data by rules, without a language model: figures from the warehouse "
    '("revenue by country in 2025", "top 5 products"), the analytics handbook ("what is net revenue?") and sums ("17.5 * 24"). '
    'Several questions at once are separated by semicolons, and "show me the SQL" shows where an answer came from.'
)
_ANSWERS: dict[Talk, str] = {
    "greeting": f"Hello! {ABOUT}",
    "thanks": "You are welcome.",
    "bye": "Goodbye!",
    "praise": "Good. What else would you like to know?",
    "wellbeing": f"I am well, thank you. {ABOUT}",
    "help": ABOUT,
    "identity": f"I am the analyst, a program and not a person. {ABOUT}",
    "sorry": "No harm done. What would you like to know?",
    "no": "All right. What else would you like to know?",
}
_HELLO = r"(?:hi+|hello+|hey+|hiya|yo|howdy|greetings|good (?:morning|afternoon|evening|day)|morning|guten tag|hallo|moin|bonjour)"
_NAMED = r"(?: (?:there|all|everyone|everybody|team|analyst|again|you|bot|folks|friend|mate))?"
_POLITE = r"(?:,? (?:please|then|now|for (?:that|this|now|today|your (?:help|time))|so much|very much|a lot|again|everything|you|analyst|there|bot|dear))*"
_TALK: dict[Talk, str] = {
    "greeting": rf"{_HELLO}{_NAMED}(?:,? {_HELLO}{_NAMED})?",
    "thanks": r"(?:(?:ok(?:ay)?|great|cool|perfect|good|nice|super|awesome|wonderful|no|that is all|that's all|all good),? )?"
    r"(?:many |much )?(?:thanks?(?: you)?|thank u|thx|ty|cheers|appreciated|much appreciated|appreciate it|i appreciate it)"
    r"(?:,? (?:a lot|so much|very much|a million|again|for (?:that|this|now|the help|your help|everything)|that's all|that is all|that helps?|"
    r"that (?:was|is) (?:helpful|great|all)|mate|you|bye|goodbye|great|perfect))*",
    "bye": r"(?:ok(?:ay)? )?(?:good ?bye|bye(?: bye)?|see you(?: later| soon| tomorrow)?|see ya|ciao|good night|have a (?:nice|good|great) "
    r"(?:day|evening|weekend|one)|that(?:'s| is| will be|'ll be) all(?: for (?:now|today))?|i(?:'m| am) done|quit|exit|later)(?: for now| then)?",
    "praise": r"(?:ok(?:ay)?|okey|great|cool|nice|good(?: job| work| to know)?|well done|perfect|awesome|excellent|wonderful|super|got it|i see|understood|"
    r"alright|all right|fine|interesting|wow|lol|haha|hm+|sure|yes|yep|yeah|right|makes sense|that(?:'s| is) (?:great|good|all right|helpful|interesting))"
    r"(?:,? (?:great|good|cool|job|work|then|now|nice))*",
    "wellbeing": rf"(?:{_HELLO}{_NAMED},? )?(?:how are you(?: doing)?(?: today)?|how(?:'s| is) it going|how do you do|what(?:'s| is) up|sup|are you (?:ok|there|awake)|"
    r"how(?:'s| is) your day)",
    "help": r"(?:please )?(?:help(?: me)?(?: please)?|what can (?:you|i) (?:do|ask|answer|help (?:me )?with)(?: you)?(?: (?:for me|here|about))?|"
    r"what (?:do|can) you know(?: about)?|what kind of (?:questions|things|data) (?:can i ask|do you (?:have|know|answer))(?: you)?|how does this work|how do you work|"
    r"how (?:can|do) (?:i|you) (?:use (?:this|you)|start|begin|help(?: me)?)|what are you able to do|what(?: kinds? of)? (?:data|questions) "
    r"(?:do you have|can you answer|are there|do you understand|is there|is available|are available|can i see)|can you help(?: me)?|i need (?:some )?help|what should i ask|give me (?:some )?examples?|examples?|"
    r"what is this|what do you do|instructions|options|menu|usage|what are my options|show (?:me )?(?:the )?(?:help|options|menu))",
    "identity": r"(?:who|what) (?:are|r) (?:you|u)|what(?:'s| is) your name|are you (?:an? )?(?:human|robot|bot|ai|person|real(?: person)?|machine|llm|chatgpt|"
    r"language model|real)|who (?:made|built|created|wrote) you|introduce yourself|tell me about yourself|am i talking to (?:a|an) (?:human|person|bot|machine)",
    "history": r"(?:please )?(?:what (?:did|have) (?:i|we) (?:just )?(?:ask(?:ed)?|say|said|talk(?:ed)? about|discuss(?:ed)?)(?: you)?(?: (?:so far|before|last|first|earlier|today))?|"
    r"what (?:was|were) my (?:first|last|previous|earlier) questions?|(?:list|show|repeat)(?: me)? (?:all )?(?:of )?my (?:last |previous |earlier )?questions?(?: so far)?|"
    r"what have we (?:talked about|discussed)(?: so far)?|(?:show (?:me )?)?(?:the |my )?history|(?:our|this|the) conversation so far|"
    r"summari[sz]e (?:our|the|this) (?:conversation|chat)(?: so far)?|recap)",
    "sql": r"(?:(?:and|ok(?:ay)?|great|thanks?|now|so),? )*(?:please )?(?:(?:can|could|may) (?:you|i) )?(?:please )?"
    r"(?:(?:show|give|tell|print|display|see|share|get)(?: me| us)? )?(?:what |which )?(?:is |was )?(?:the |your |that |this )?"
    r"(?:sql|query|queries|statement|sql quer(?:y|ies)|sql code|sql statement|underlying (?:sql|query))"
    r"(?: (?:for|behind|of|to|you|did you|was|were|that|it|this|the|last|previous|answer|result|number|figure|used?|run|ran|please|i)\b)*",
    "source": r"(?:and |but |so )?(?:how (?:did|do) you (?:calculate|compute|get|find|know|arrive at|work out) (?:that|this|it|these)(?: (?:number|figure|result)s?)?|"
    r"where (?:is|are|do|does|did) (?:you )?(?:(?:get|take) )?(?:this|that|these|those|it|the)(?: (?:number|figure|data|result|answer)s?)?(?: come)? from|"
    r"(?:are you|r u) (?:really )?sure(?: about (?:that|this|it))?|is (?:that|this|it) (?:right|correct|true)|how (?:is|was) (?:that|this|it) calculated)",
    "sorry": r"(?:i(?:'m| am) )?(?:sorry|my (?:bad|mistake)|oops|never ?mind|forget it|ignore that|cancel|stop|scratch that)(?: about that)?",
    "no": r"(?:no|nope|nah|not now|nothing|no,? (?:nothing|that'?s (?:it|all)))(?: else)?",
}
_MOST = 200  # characters of what is no question


def talk_in(said: str) -> Talk | None:
    """Tell what is said where it is no question about data: all of it has to be that."""
    words = " ".join(said.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    if len(words) > _MOST:
        return None
    plain = re.sub(r"[!.?,;:)(\s]+$", "", re.sub(r"[!?.]+(?= )", ",", words)).strip("\"'")
    plain = re.sub(r"[\U0001F300-\U0001FAFF\u2600-\u27BF\uFE0F]+", "", plain).strip(" ,!.?") or plain
    for kind, pattern in _TALK.items():
        if re.fullmatch(f"{pattern}{_POLITE}", plain, re.IGNORECASE):
            return kind
    return None


_OPENING = re.compile(
    rf"^\s*(?:{_HELLO}{_NAMED}|thanks?(?: you)?(?: (?:a lot|so much|very much))?|ok(?:ay)?|great|perfect|cool|nice|(?:sorry|excuse me))\s*[,.!;:-]+\s*(?=\S)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"[,.!?\s]+(?:thanks?(?: you)?(?: (?:a lot|so much|very much|in advance))?|thx|cheers|please|pls|bye)[\s!.,]*$", re.IGNORECASE
)


def without_greeting(said: str) -> str:
    """Leave out what stands before and behind a question out of politeness."""
    kept = _OPENING.sub("", said, count=1)
    kept = _OPENING.sub("", kept, count=1)
    return _CLOSING.sub("", kept) or said


def answered(kind: Talk, payload: dict[str, Any]) -> str:
    """Answer what is no question about data."""
    if kind == "history":
        said = [one["text"] for one in payload.get("conversation", []) if one["role"] == "human"]
        earlier = [payload["summary"]] if payload.get("summary") else []
        listed = [*earlier, *(f"- {text}" for text in said)]
        return "So far you asked:\n" + "\n".join(listed) if listed else "This is the first thing you ask me."
    if kind in {"sql", "source"}:
        queries = [str(one["args"]["sql"]) for one in payload.get("last_calls", []) if one["tool"] == "bq_query" and "sql" in one["args"]]
        if not queries:
            return "There is no query to show: the last answer did not come from the warehouse."
        return "The last answer came from:\n\n" + "\n\n".join(f"```sql\n{query}\n```" for query in queries)
    return _ANSWERS[kind]
