"""What is said to the analyst beside questions about data, and what the offline rules say to it."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Literal

from interlock_agents.analyst.lexicon import DATA, FIGURES, GROUPINGS

__all__ = ["ABOUT", "Talk", "answered", "talk_in", "without_greeting"]

Talk = Literal[
    "greeting",
    "thanks",
    "bye",
    "praise",
    "wellbeing",
    "help",
    "identity",
    "history",
    "sql",
    "source",
    "sorry",
    "no",
    "date",
    "data",
    "complaint",
]

ABOUT = (
    "I answer questions about the demo shop's data by rules, without a language model: figures from the warehouse "
    '("revenue by country in 2025", "top 5 products"), the analytics handbook ("what is net revenue?") and sums ("17.5 * 24"). '
    'Several questions at once are separated by semicolons, and "show me the SQL" shows where an answer came from.'
)
_SPAN = f"The demo shop's warehouse has orders from {DATA[0]:%d %B %Y} to {DATA[1] - dt.timedelta(days=1):%d %B %Y}."
_DATA = (
    f"The demo shop sells furniture and office goods. {_SPAN} The tables are orders, order_items, customers and products. I know these figures: "
    f"{FIGURES}; by {GROUPINGS}; for a country, city, category, segment, status, channel or coupon. "
    'The handbook says how they are defined ("what is net revenue?").'
)
_ANSWERS: dict[Talk, str] = {
    "data": _DATA,
    "complaint": "I am sorry. I answer by rules and understand only part of what is said to me. "
    '"Show me the SQL" shows where an answer came from, and "help" what can be asked.',
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
    "greeting": rf"{_HELLO}{_NAMED}(?:,? {_HELLO}{_NAMED})?|i(?:'?m| am) new(?: here)?|(?:this is )?my first time(?: here)?",
    "thanks": r"(?:(?:ok(?:ay)?|great|cool|perfect|good|nice|super|awesome|wonderful|no|that is all|that's all|all good),? )?"
    r"(?:many |much )?(?:thanks?(?: you)?|thank u|thx|ty|cheers|appreciated|much appreciated|appreciate it|i appreciate it)"
    r"(?:,? (?:a lot|so much|very much|a million|again|for (?:that|this|now|the help|your help|everything)|that's all|that is all|that helps?|"
    r"that (?:was|is) (?:helpful|great|all)|mate|you|bye|goodbye|great|perfect))*",
    "bye": r"(?:ok(?:ay)? )?(?:good ?bye|bye(?: bye)?|see you(?: later| soon| tomorrow)?|see ya|ciao|good night|have a (?:nice|good|great) "
    r"(?:day|evening|weekend|one)|that(?:'s| is| will be|'ll be) all(?: for (?:now|today))?|i(?:'m| am) done|quit|exit|later)(?: for now| then)?",
    "praise": r"(?:ok(?:ay)?|okey|great|cool|nice|good(?: job| work| to know)?|well done|perfect|awesome|excellent|wonderful|super|got it|i see|understood|"
    r"alright|all right|fine|interesting|wow|lol|haha|hm+|sure|yes|yep|yeah|right|makes sense|(?:that|you)(?:'s|'re| is| are) (?:great|good|all right|helpful|interesting|awesome|amazing|the best))"
    r"(?:,? (?:great|good|cool|job|work|then|now|nice))*",
    "wellbeing": rf"(?:{_HELLO}{_NAMED},? )?(?:how are you(?: doing)?(?: today)?|how(?:'s| is) it going|how do you do|what(?:'s| is) up|sup|are you (?:ok|there|awake)|"
    r"how(?:'s| is) your day)",
    "help": r"(?:please )?(?:help(?: me)?(?: please)?|what can (?:you|i) (?:do|ask|answer|help (?:me )?with)(?: you)?(?: (?:for me|here|about))?|"
    r"what (?:do|can) you know(?: about)?|what kind of (?:questions|things|data) (?:can i ask|can you answer|do you (?:have|know|answer|understand))(?: you)?|how does this work|how do you work|"
    r"how (?:can|do) (?:i|you) (?:use (?:this|you)|start|begin|help(?: me)?)|what are you able to do|what(?: kinds? of)? (?:data|questions) "
    r"(?:do you have|can you answer|are there|do you understand|is there|is available|are available|can i see)|can you help(?: me)?(?: with .{1,40})?|i need (?:some )?help|what should i ask|give me (?:some )?examples?|examples?|"
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
    "sorry": r"(?:i(?:'m| am) )?(?:sorry|wrong question|my (?:bad|mistake)|oops|never ?mind|forget it|ignore that|cancel|stop|scratch that)(?: about that)?",
    "date": r"(?:and |so )?(?:what(?:'s| is)?|which|tell me) (?:the |today'?s? |(?:is )?(?:the )?current )*(?:date|day)(?: (?:is it|do we have|have we))?(?: today| now)?|"
    r"what(?:'s| is) (?:the )?today(?:'s date)?|what day is (?:it|today)(?: today)?|what year is (?:it|this)|which year (?:is it|do we have)",
    "data": r"(?:(?:can you|could you|please) )?(?:tell me|what (?:can|do) you (?:tell me|know|have))(?: something| more)? (?:about|on) (?:the|our|your|this) (?:demo )?(?:shop|data|company|business|warehouse|store|dataset)|"
    r"what(?:'s| is)(?: in)? (?:the|your|this|our) (?:data|dataset|warehouse|database)(?: about)?|"
    r"(?:what|which)(?: kinds? of| sort of)? (?:data|information|tables|figures|numbers|metrics|measures|kpis) (?:do you have|do you know|have you(?: got)?|are there|exist|is there|"
    r"can you (?:give|show)(?: me)?|do we have|can i (?:get|ask(?: for| about)?)|are available|is available)(?: (?:access to|about .{1,30}|on .{1,30}|here))?|"
    r"(?:what|which) (?:time|period|years|dates|months)(?: range| span)? (?:do(?:es)?|is|are) (?:the|your|our|this|you|in) ?(?:data|warehouse|orders)? ?(?:cover(?:ed)?|have|in it|available|there)?(?: by the data| data of| in the data)?|"
    r"how (?:old|recent|up to date|fresh|current) (?:is|are) (?:the|your|our|this) (?:data|numbers|figures)|what (?:can|could|should) (?:i|we) ask (?:you )?(?:about|for)(?: .{1,30})?|"
    r"(?:since when|from when|how far back) (?:do|does|is|are|goes?) (?:we|you|the|your|our)(?: have| go)? ?(?:data|orders|numbers|figures)?(?: go)?(?: back)?|from when(?: to when)? is (?:the|your) data|(?:show|list|describe)(?: me)?(?: all)? (?:the |your |our )?(?:tables|data|database|schema|warehouse)|describe (?:the|your) (?:data|shop)|"
    r"what do you know about (?:customers|products|orders|sales|us|me)",
    "complaint": r"(?:you(?:'re| are| r)|this is|that(?:'s| is| was)|it(?:'s| is)) (?:so |very |really |totally |just |not )*(?:stupid|dumb|useless|wrong|bad|terrible|rubbish|nonsense|"
    r"incorrect|annoying|helpful|right|correct|true|what i (?:asked|meant|wanted)(?: for)?|a joke|crap)|wrong|nonsense|rubbish|i (?:do not|don'?t) (?:understand|get it|believe (?:you|that|it))|huh|what|wtf",
    "no": r"(?:no|nope|nah|not now|nothing|no,? (?:nothing|that'?s (?:it|all)))(?: else)?",
}
_COURTESIES: frozenset[Talk] = frozenset({"greeting", "thanks", "praise", "sorry"})
_BETWEEN = re.compile(r",? and |[,;] ?|[.!?]+ ", re.IGNORECASE)
_MOST = 200  # characters of what is no question


def talk_in(said: str) -> Talk | None:
    """Tell what is said where it is no question about data: all of it has to be that."""
    words = " ".join(said.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    if len(words) > _MOST:
        return None
    plain = re.sub(r"[!.?,;:)(\s]+$", "", re.sub(r"[!?.]+(?= )", ",", words)).strip("\"'")
    plain = re.sub(r"^(?:(?:so|ok|okay|and|well|then|but|hm+|ah|oh)\b[ ,]+)+(?=\w)", "", plain, flags=re.IGNORECASE)
    plain = re.sub(r"[\U0001F300-\U0001FAFF\u2600-\u27BF\uFE0F]+", "", plain).strip(" ,!.?") or plain
    found = _kind_of(plain)
    if found is not None:
        return found
    kinds: list[Talk | None] = [_kind_of(part.strip(" ,.!?")) for part in _BETWEEN.split(plain) if part.strip(" ,.!?")]
    known: list[Talk] = [kind for kind in kinds if kind is not None]
    if not known or len(known) < len(kinds):
        return None
    return max(known, key=lambda kind: kind not in _COURTESIES)


def _kind_of(plain: str) -> Talk | None:
    for kind, pattern in _TALK.items():
        if re.fullmatch(f"(?:{pattern}){_POLITE}", plain, re.IGNORECASE):
            return kind
    return None


_OPENING = re.compile(
    rf"^\s*(?:{_HELLO}{_NAMED}|thanks?(?: you)?(?: (?:a lot|so much|very much))?|ok(?:ay)?|great|perfect|cool|nice|(?:sorry|excuse me)|(?:and )?(?:one|another|a|last|quick|next|just one)(?: more| other| last| quick)?(?: question| thing)?)\s*[,.!;:-]+\s*(?=\S)",
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
    if kind == "date":
        return f"Today is {dt.date.fromisoformat(payload['today']):%A, %d %B %Y}. {_SPAN}"
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
