"""English-like sentences, made from templates and word lists.

About one word in ten is in TextBlob's lexicon, with negations and modifiers around it, as in real
reviews: that is what makes the sentiment of the texts as costly and as varied as it is there.
"""

import re

from booksan.generate.chance import Chance


def _choices(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


_LISTS: dict[str, tuple[str, ...]] = {
    "thing": _choices(
        "story|plot|ending|dialogue|narrator|pacing|prose|cover|translation|chapter on the siege|"
        "index|setting|premise|villain|hero|second half|author's voice|research|advice|argument|"
        "cast of characters|romance|mystery|illustrations|table of contents|writing|binding"
    ),
    "who": _choices(
        "my sister|my book club|the author|the narrator|my husband|a friend from work|the hero|"
        "our teacher|the publisher|the reviewer below|my daughter|his editor|the old captain|"
        "the detective|half of my class|the heroine|everybody at the library"
    ),
    "good": _choices(
        "good|great|excellent|wonderful|amazing|brilliant|beautiful|fascinating|enjoyable|"
        "delightful|superb|charming|lovely|perfect|clever|funny|fresh|interesting|honest|"
        "compelling|memorable|gripping|thoughtful|useful|clear|moving|insightful|fine|nice|fun|"
        "magnificent|outstanding|fantastic|entertaining|intelligent|incredible|powerful|helpful|"
        "impressive|witty|rich|warm|elegant|inspiring|inspirational|hilarious|marvelous|sweet"
    ),
    "bad": _choices(
        "bad|terrible|awful|boring|dull|poor|weak|disappointing|predictable|confusing|horrible|"
        "tedious|annoying|silly|stupid|pathetic|shallow|slow|dry|flat|repetitive|"
        "pointless|unreadable|sloppy|overrated|messy|ridiculous|disgusting|mediocre|lame|cheap|"
        "painful|unbelievable|useless|worthless|depressing|childish|absurd|worst|sad|hard|cold"
    ),
    "plain": _choices(
        "long|short|old|new|little|different|early|first|second|large|simple|"
        "certain|main|dark|young|whole|modern|technical|political|real|final|"
        "special|general|other|famous|recent|local|ordinary|complex|light|rare|strange|quiet"
    ),
    "very": _choices(
        "very|really|extremely|quite|so|truly|absolutely|rather|incredibly|somewhat|a bit|"
        "surprisingly|just|utterly|pretty|terribly|remarkably"
    ),
    "not": _choices("not|never|hardly|not at all|no longer"),
    "place": _choices(
        "on the train|at the beach|in the waiting room|during the holidays|in one sitting|"
        "over the weekend|by the fire|for a class in college|after a long week|in the hospital|"
        "on a flight to Lisbon|while the children were asleep|with a pot of tea"
    ),
    "count": _choices(
        "two|three|four|five|a dozen|forty|many more|several|a hundred|many|too many"
    ),
    "aside": _choices(
        "as far as I can tell|to be fair|for what it's worth|believe it or not|in my opinion|"
        "as others have said|at least in this edition|if memory serves|by the way"
    ),
    "topic": _choices(
        "the harbor strike|a marriage that comes apart|three generations of bakers|the lost map|"
        "how to raise sheep|the rules of grammar|an expedition to the ice|the trial|the war years|"
        "baking without an oven|a village and its clock|the history of paper|networks and queues|"
        "faith and doubt|the brothers and their quarrel|life after the flood"
    ),
    "cheer": ("!", ".", "!!!", ".", ".", ".", "! :)", " :-)", ". ;)", "! =)", " :D"),
    "groan": (".", ".", "...", "!", "?!", " :(", ". :-(", "!!", " :/"),
}

_SYLLABLES = _choices("ma|to|fen|ru|se|jo|il|ka|bre|dor|wyn|lu|pel|an|gri|mor|ti|sha|os|vel|ne|qua")

_GLAD = (
    "The {thing} is {very} {good}{cheer}",
    "I loved the {thing}, {very} {good} as it is, and {who} loved it as well{cheer}",
    "What a {good} {thing} this is{cheer}",
    "It is {good}, {good} and {very} {good}.",
    "{who} gave it to me, and I read it {place} with a {good} feeling to the last page.",
    "I was {not} bored, {aside}, although the part about {topic} takes {count} chapters.",
    "This is the best book about {topic} that I have read in {count} years{cheer}",
    'I would call it {good}, and {who} would say "{very} {good}" instead.',
    "The {thing} made me laugh and, {aside}, it made {who} cry{cheer}",
    "Highly recommended to anyone who cares about {topic}{cheer}",
    "You won't be sorry that you bought it, since the {thing} alone is worth the price.",
    "{name} is a {good} character, and the way {who} talks about {topic} isn't {bad} either.",
)
_SAD = (
    "The {thing} is {very} {bad}{groan}",
    "I did {not} like the {thing}, and {who} put it down after {count} pages{groan}",
    "What a {bad} {thing}{groan}",
    "It was {bad}, {bad} and, {aside}, {very} {bad}.",
    "I wanted to like it, but the {thing} is not {good} and {topic} is left out{groan}",
    "Don't waste your money on this one, borrow it {place} if you must{groan}",
    "There is nothing {good} to say about the {thing}, {aside}.",
    'They call it "{good}" on the back, and I call it &quot;{bad}&quot;{groan}',
    "{who} found {count} mistakes in the chapter about {topic}, which is {very} {bad}.",
    "{name} never becomes a person, the {thing} is {bad}, and I could not care less about {topic}.",
    "I fell asleep {place} and have {not} opened it since{groan}",
)
_EVEN = (
    "The book tells of {topic} and of {topic}, and of what {who} did about it in the end.",
    "I read it {place}, then gave it to someone {plain} who wanted to know about {topic}.",
    "There are {count} {plain} chapters about {topic} and {count} about {topic}.",
    "{name} leaves the {plain} town, and {name} stays behind with the {plain} letters.",
    "The {plain} part, {aside}, is about {topic}; the rest follows {name} across the border.",
    "{who} bought it for me because of the {plain} {thing}.",
    "In the {plain} chapter {name} meets {name}, and from there on everything turns on {topic}.",
    "I have the edition with the {plain} cover, which {who} found at a sale {place}.",
    "It begins with {topic}, goes on with {topic} and ends, {aside}, with {name}.",
    "Compare it with the {plain} one by the same author, where {topic} takes up {count} pages.",
    "If you want to know about {topic}, look at the notes at the back and start from there.",
    "My copy came in the mail within {count} days, and {who} had it before I did.",
    '"{name}," says {name}, "you knew about this before the rest of us did."',
    "The author spends {count} pages on {topic} before {name} says a word about the ship.",
    "After that, {who} asked me whether {name} was based on somebody we had known at school.",
)
_FOREIGN = (
    "Un libro muy bueno, lo leí en dos días y se lo regalé a mi hermana.",
    "Das Buch ist schön, aber die Übersetzung hat mir nicht gefallen.",
    "Très beau roman, à lire absolument; la fin m'a beaucoup touché.",
    "Это очень хорошая книга, я читал её всю ночь.",
    "とても面白い本でした。",
    "这本书很好看，推荐给大家。",
    "Um livro maravilhoso, não consegui parar de ler.",
    "I loved it 😀👍",
    "Five stars 🌟🌟🌟🌟🌟 and a heart ❤️ for the ending.",
    "Not for me 😞 — sorry…",
    "الكتاب جميل جدا",
    "Naïve, clichéd & très déjà-vu – but fun “anyway”.",
)
_REMARKS = {
    "glad": (
        "Great book!",
        "Loved it!!",
        "A must read",
        "Very good :)",
        "Excellent.",
        "Perfect gift",
    ),
    "even": ("ok", "As described.", "It's a book.", "Read it twice", "So-so", "Fine, I guess"),
    "sad": ("Boring.", "Not good :(", "Awful!", "Don't bother", "A waste, really", "Hated it"),
}
_SUMMARIES = {
    "glad": ("A {good} {thing}{cheer}", "{good} and {good}", "Five stars for the {thing}"),
    "even": ("About {topic}", "Read {place}", "The {plain} {thing}, {aside}"),
    "sad": ("A {bad} {thing}{groan}", '"{good}"? {bad}!', "Skip the part about {topic}"),
}
_TEMPLATES = {"glad": _GLAD, "even": _EVEN, "sad": _SAD}
_SLOT = re.compile(r"\{([a-z]+)\}")


def fill(template: str, chance: Chance) -> str:
    """The template with a word in each slot, and a capital at the beginning."""
    text = _SLOT.sub(lambda slot: _word(slot[1], chance), template)
    return text[:1].upper() + text[1:]


def _word(slot: str, chance: Chance) -> str:
    """A word of the list; names are invented, so that texts have many different words."""
    if slot == "name":
        return "".join([chance.pick(_SYLLABLES) for _ in range(3)]).capitalize()
    return chance.pick(_LISTS[slot])


def sentences(tone: str, count: int, chance: Chance) -> list[str]:
    """Sentences of the tone `glad`, `even` or `sad`."""
    return [fill(chance.pick(_TEMPLATES[tone]), chance) for _ in range(count)]


def summaries(tone: str, count: int, chance: Chance) -> list[str]:
    return [fill(chance.pick(_SUMMARIES[tone]), chance) for _ in range(count)]


def remarks(tone: str) -> tuple[str, ...]:
    """Texts of a few words."""
    return _REMARKS[tone]


def foreign() -> tuple[str, ...]:
    """Sentences that are not English, or hold emoji."""
    return _FOREIGN
