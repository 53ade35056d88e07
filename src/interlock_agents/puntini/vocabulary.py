"""The words that the offline rules know, by what they can mean."""

from __future__ import annotations

__all__ = [
    "AUXILIARY", "EVERY", "FUNCTION_WORDS", "IRREGULAR_PLURALS", "LABELS", "MONTHS", "MUTUAL", "NO_RELATION", "NO_VALUE", "OF_PROPERTY",
    "PARTICLES", "PAST_VERBS", "PEOPLE", "PHRASES", "PREPOSITIONS", "PRONOUNS", "PROPERTIES", "RELATION_VERBS", "RELATIVE", "STATES",
    "TELLING", "THAT_ONE", "THIRD_PERSON", "TWO_WORDS", "UNITS", "VERBS", "WHICH", "third_person", "word_set",
]  # fmt: skip


def word_set(text: str) -> frozenset[str]:
    """Return the set of the words of a text."""
    return frozenset(text.split())


FUNCTION_WORDS = word_set(
    """
    ' 's , = : & < > a about above according after again against all also although am among an and another any anybody anyone anything are
    around as at be because been before being below between both but by called can cannot could did do does doesn't don't during each
    either else ever every exist exists everybody everyone everything except few for from graph had has have having he her hers him his
    how however i if in instead into is isn't it its itself might shall she just later less like many may maybe me mine more most much
    must my myself named neither never no nobody none nor not nothing of off on once one only onto or other our out over perhaps
    please should since so some somebody someone something soon such than that the their them then there these they this those though
    through to today together tomorrow too tonight unless until up upon us very via was we were what when whenever where whether which
    while who whom whose why will with within without would yesterday yet you your asap now immediately quickly urgently
    across along behind beside despite inside near outside per till toward towards under underneath still already
    """
)
VERBS = word_set(
    """
    create add make insert register assign unassign connect link relate attach disconnect unlink detach set change update mark flag give
    rename delete remove drop erase clear unset list show display print find get count describe tell undo move copy duplicate merge send
    mail write increase decrease sort order export import save load open close
    """
)
RELATION_VERBS = word_set(
    """
    attend belong block contain control depend employ follow fund hate help host include join know lead like live love manage mentor
    need own play precede produce report require sell speak sponsor study supervise supply support teach use visit work
    """
)


def third_person(verb: str) -> str:
    """Return the third person of a verb: 'works', 'teaches', 'studies'."""
    if verb.endswith("y") and verb[-2:-1] not in {*"aeiou"}:
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "ss", "x")) else f"{verb}s"


THIRD_PERSON = {third_person(verb): verb for verb in RELATION_VERBS}
PAST_VERBS = word_set("wrote made built bought sold led taught won drew sang ran met gave took found")
PREPOSITIONS = word_set("at by for from in into of on to under with")
MUTUAL = word_set("MARRIED_TO ENGAGED_TO FRIENDS_WITH FRIEND_OF NEIGHBOUR_OF NEIGHBOR_OF SIBLING_OF COLLEAGUE_OF")
"""Relationships that have no direction."""
NO_RELATION = word_set(
    """
    due left wrong born worth named called set changed good bad ready available sorted ordered grouped filtered listed created added made
    deleted removed
    """
)
"""Participles and adjectives that do not name a relationship, though a preposition follows them."""
PEOPLE = word_set("person user employee customer client manager friend contact member developer engineer student teacher author")
LABELS = PEOPLE | word_set(
    """
    account actor animal apartment app area article asset band bank bed book branch bug building car category channel chapter city class
    club cluster comment company component computer concept country course decision department device document epic event factory feature
    file film flat game garden genre goal group hotel house idea ingredient invoice issue item landlord language lesson location machine
    match meeting milestone model module movie network note office order organisation organization page paper parent part pet place plan
    planet plant platform player playlist policy post problem product programme project question recipe release report requirement
    resource restaurant risk river robot role room route rule school server service shop site skill song sprint station step store story
    street subject supplier system tag task team tenant test ticket tool topic train trip vehicle vendor village website workshop
    """
)
TWO_WORDS = frozenset({"work package", "user story", "action item", "business unit", "team member", "test case", "data source"})
PROPERTIES = word_set(
    """
    address age amount author birthday birthdate budget capacity category code color colour comment completed cost count country currency
    date deadline description difficulty done due duration effort email end estimate flag gender genre height hours importance income isbn
    language length level location mail mileage name nickname note notes number owner pages password phone points population position price
    priority progress quantity rank rating reason role salary score severity size speed start state status subtitle summary surname
    telephone temperature text time title type unit url urgent value version volume weight width year zip
    """
)
OF_PROPERTY = word_set(
    "address amount birth code color colour cost count date email hours id level name number phone price rate size time type url"
)
"""Words that a property of several words may end with."""
TELLING = word_set(
    """
    aged assigned based belonging born connected containing costing dated died due earning ending linked living located made married owned
    priced related starting using weighing working worth written
    """
)
"""Words that describe what is named before them, and are not part of its name."""
PRONOUNS = word_set("he her hers him his it its me mine my our she their them these they this those us we you your i")
AUXILIARY = word_set(
    """
    a am an are be been being can cannot could did do does doesn't don't had has have having is isn't may might must never no not only shall
    should was were will would
    """
)
EVERY = word_set("all any anybody anyone anything each every everybody everyone everything some somebody someone")
WHICH = word_set(
    """
    first last next previous latest newest oldest youngest biggest largest smallest longest shortest best worst second third same cheapest
    dearest fastest slowest heaviest lightest tallest highest lowest most least fewest
    """
)
"""Words that select one of several, and are not names."""
THAT_ONE = word_set("it this that he him she her")
PARTICLES = word_set("of the de da del den der di du van von la le el al bin ibn ten zu y")
"""Words inside of a name: 'Leonardo da Vinci'."""
PHRASES = frozenset({
    "in progress", "on hold", "to do", "not started", "in review", "under review", "on track", "at risk", "very high", "very low",
    "work in progress",
})  # fmt: skip
STATES = word_set("done finished complete completed open closed urgent blocked cancelled")
NO_VALUE = word_set(
    """
    bad best better big bigger biggest cheap cheaper cheapest different easy expensive first good hard important interesting large larger
    largest last late latest left remaining long longer main missing new newer newest next old older oldest other overdue past previous
    recent same second short shorter similar single small smaller smallest third total unfinished unique unlinked upcoming worst young
    younger youngest
    """
)
"""Adjectives that are not the value of a property."""
UNITS = word_set(
    "% percent day days hour hours minute minutes week weeks month months year years euro euros dollar dollars eur usd kg km m cm points"
)
MONTHS = word_set(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec"
)
RELATIVE = word_set("today tomorrow yesterday tonight monday tuesday wednesday thursday friday saturday sunday now soon later")
IRREGULAR_PLURALS = {
    "people": "person", "persons": "person", "children": "child", "men": "man", "women": "woman", "criteria": "criterion", "data": "data",
    "shelves": "shelf", "knives": "knife", "wolves": "wolf", "loaves": "loaf", "thieves": "thief", "wives": "wife", "mice": "mouse",
}  # fmt: skip
