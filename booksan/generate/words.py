"""The word lists from which titles, names and the other short fields of books are made."""

from booksan.generate import words
from booksan.generate.generator import Chance, weighted


def _words(text: str) -> list[str]:
    return text.split()


ADJECTIVES = _words("""
Silent Hidden Crimson Broken Golden Distant Forgotten Restless Winter Paper Wandering Hollow
Gentle Burning Northern Southern Secret Patient Borrowed Crooked Midnight Velvet Iron Amber
Electric Quiet Stolen Painted Weathered Luminous Drowned Scarlet Seventh Twelfth Tidal Frozen
Wooden Glass Copper Silver Ashen Salted Feathered Marble Bitter Honest Practical Everyday Modern
Ancient Rural Urban Coastal Inner Essential Complete Illustrated Curious Stubborn Reluctant
Sleeping Waking Dancing Whispering Laughing Vanishing Endless Narrow Sunken Clockwork Moonlit
Thirsty Barefoot Unwritten Unspoken Untold Faithful Fearless Ragged Tangled Woven Polished Rusted
Blue Green White Black Grey Señorial Été Provençal Ruined Rising Falling Turning Returning Shining
Lonely Wild Tame Royal Common Sacred Profane Mortal Hungry Humble Foreign Domestic Mapped
""")

NOUNS = _words("""
Garden River Harbor Orchard Lantern Compass Window Mountain Kitchen Library Bridge Meadow Tower
Island Railway Station Market Village Cathedral Workshop Voyage Letter Portrait Mirror Clock
Summer Autumn Daughter Brother Stranger Shepherd Captain Doctor Teacher Gardener Painter Carpenter
Soldier Pilgrim Widow Orphan Baker Farmer Sailor Republic Empire Kingdom Parliament Frontier Border
Harvest Storm Thunder Rain Tide Shore Desert Forest Valley Canyon Prairie Marsh Lagoon Reef Cliff
Sparrow Raven Falcon Heron Wolf Fox Badger Otter Horse Salmon Bee Moth Spider Oak Willow Cedar Pine
Rose Thistle Ivy Fern Bread Salt Honey Vinegar Saffron Pepper Tea Coffee Loom Needle Thread Quilt
Anvil Hammer Chisel Engine Wheel Anchor Sail Map Atlas Diary Chronicle Ledger Testament Psalm Hymn
Sonata Waltz Ballad Fiddle Trumpet Drum Theatre Circus Carnival Festival Wedding Funeral Inheritance
Promise Rumor Riddle Puzzle Theorem Experiment Telescope Comet Planet Galaxy Horizon Eclipse Dawn
Dusk Café Señora Fjörd Château Smörgåsbord Mañana House Cottage Castle Attic Cellar Stairway Door
""")

#: Ways to dress a title. None holds a colon, so that title and subtitle stay apart.
DRESSES = (
    "{}",
    "The {}",
    "A {} of One's Own",
    "The {} and Other Stories",
    "Beyond the {}",
    "Return to the {}",
    "Under the {}, Before the War",
    '"The {}"',
    "Who Stole the {}?",
    "The {} Handbook",
    "A Child's Book of the {}",
    "Songs for a {}",
    "How to Build a {} in Ten Days",
    "My Life with the {}",
    "The {}, the Sea & Me",
    "Notes from a {}",
    "THE {}",
    'The So-Called "{}" Affair',
    "Last Train to the {}",
    "{} (Classics of the World)",
    "An Introduction to the {}, Second Edition",
    "In Search of the {}",
    "El libro de la {}",
    "Dr. Pell and the {}!",
)

SUBTITLES = (
    "A Novel",
    "A Memoir",
    "A Beginner's Guide",
    "Essays, Letters, and Speeches",
    "The Story of a Family in Hard Times",
    "What Every Parent Should Know",
    "Poems, 1961-1987",
    "A Mystery of the Old Quarter",
    "Theory and Practice (Studies in Method)",
    "Fifty Recipes & a Few Secrets",
    "The Unauthorized Biography",
    "Walks, Maps and Timetables",
    "A Field Guide for the Curious",
    "Book One of the Longest Winter",
)

TOPICS = ("Systems", "Databases", "Algorithms", "Objects", "Transactions", "Ledgers", "Sensing")
DISTRIBUTED = (
    "Distributed {}",
    "Designing distributed {}",
    "{} in DISTRIBUTED Environments",
    "Principles of Distributed {}, Second Edition",
    'The "Distributed" {} Cookbook',
    "Undistributed {}: Lessons from the Field",
)

FIRST_NAMES = _words("""
Anna Brian Clara David Elena Frank Grace Henry Irene James Karen Louis Maria Nathan Olive Peter
Quentin Rachel Samuel Teresa Ursula Victor Wendy Xavier Yvonne Zachary Alice Benjamin Catherine
Daniel Edith Felix Gloria Harold Ingrid Joseph Katherine Leonard Margaret Nicholas Ophelia Paul
Rosalind Stephen Thomas Vera Walter José Søren Zoë François Łukasz Jürgen Noémie Ana Piotr Hiroshi
Amara Kwame Leila Omar Priya Ravi Mei Sanjay Fatima Dmitri
""")

LAST_NAMES = _words("""
Abbott Barlow Calloway Drummond Ellison Fairchild Garrison Hathaway Ingram Jessup Kessler Lockwood
Merriman Norwood Osgood Pemberton Quigley Radcliffe Satterly Thackeray Underhill Vandermeer
Whitlock Yardley Zimmer O'Hare O'Leary D'Amato L'Estrange M'Bala Römer Núñez Ødegård Żak Lefèvre
Müller Çelik Ivanov Tanaka Okafor Mensah Haddad Sharma Patel Chen Nguyen Kowalski Rossi Fernandez
Silva Ashdown Birchwood Copperfield Dunmore Eastman Fenwick Greenhalgh Holloway Ivory Jardine
Kirkbride Larkspur Mossman Nettleton Oakley Pickering Rowntree Sandalwood Tidewell Umber Vickery
Wainwright Smith-Jones Saint-Clair
""")

SUFFIXES = (", Jr.", ", Ph.D.", ", M.D.", " III", ", Sr.")
ODD_NAMES = (
    "村上 花子",
    "Анна Петрова",
    "Γιώργος Παππάς",
    'William "Bud" O\'Dwyer',
    "The Editors of Harbor & Home, Inc.",
    "Anonymous",
    "Pope Innocent XIV",
    "محمد الحداد",
)

PUBLISHERS = (
    "Lantern House",
    "Harrow & Finch",
    "Northgate University Press",
    "Simple Machines, Inc.",
    "Penny Whistle",
    "Old Quarter Books",
    "Éditions du Vieux Port",
    "Tideline Publishing Group",
    "St. Aldric's Press",
    "Copper Kettle Media",
    'The "Little" Press',
    "Verlag Grünwald",
    "Independently Published",
    "Orchard Academic",
    "Blue Comet",
    "Meridian Technical",
)

CATEGORIES: list[list[str]] = weighted(
    (
        (["Fiction"], 190),
        (["History"], 75),
        (["Religion"], 65),
        (["Juvenile Fiction"], 50),
        (["Biography & Autobiography"], 50),
        (["Business & Economics"], 46),
        (["Sports & Recreation"], 28),
        (["Body, Mind & Spirit"], 24),
        (["Juvenile Nonfiction"], 24),
        (["Education"], 23),
        (["Travel"], 22),
        (["Computers"], 20),
        (["Language Arts & Disciplines"], 18),
        (["Social Science"], 17),
        (["Health & Fitness"], 17),
        (["Family & Relationships"], 17),
        (["Comics & Graphic Novels"], 16),
        (["Poetry"], 15),
        (["Philosophy"], 14),
        (["Cooking"], 13),
        (["Political Science"], 13),
        (["Psychology"], 12),
        (["Art"], 11),
        (["Science"], 11),
        (["Music"], 10),
        (["Nature"], 9),
        (["Children's stories"], 6),
        (["Authors, American"], 5),
        (["Fiction", "Poetry"], 3),
        (["Science fiction"], 3),
        (["fiction"], 2),
        (["Fiction, English"], 2),
        (["Computers", "Mathematics"], 2),
        (["Español", "Ficción"], 1),
    )
)

#: Decades as years divided by ten, by how many books come from them.
DECADES: list[int] = weighted(
    (
        *((decade, 1) for decade in (155, 170, 173, 176, 180, 181, 182)),
        *((decade, 3) for decade in (183, 184, 185, 186, 187, 188, 189)),
        *((190, 2), (191, 3), (192, 5), (193, 6), (194, 14), (195, 23), (196, 35), (197, 70)),
        *((198, 117), (199, 274), (200, 420), (201, 296), (202, 54)),
    )
)
ODD_DATES = ("1963*", "19??", "n.d.", "199?", "c1902", "1871*", "18--", "0000", "1998-1999")


# The short fields of a book: unique titles, names, lists, dates, ids.

_BODIES = len(words.ADJECTIVES) * len(words.NOUNS)
_TITLES = _BODIES * len(words.DRESSES)
#: A prime that divides no number of titles: steps of it visit each title once.
_STEP = 1_000_003
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_AUTHORS = weighted(((1, 82), (2, 12), (3, 4), (5, 2)))


class Titles:
    """Titles of which no two are equal, without remembering any."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._start = chance.below(_TITLES)
        self._made = 0

    def next(self) -> str:
        made, self._made = self._made, self._made + 1
        dress, body = divmod((self._start + made * _STEP) % _TITLES, _BODIES)
        adjective, noun = divmod(body, len(words.NOUNS))
        title = words.DRESSES[dress].format(f"{words.ADJECTIVES[adjective]} {words.NOUNS[noun]}")
        if made >= _TITLES:
            title += f", Part {made // _TITLES + 1}"
        if self._chance.happens(0.5):
            title += f": {self._chance.pick(words.SUBTITLES)}"
        return title


def distributed_title(k: int) -> str:
    """The k-th title with the word `distributed`, in one of its spellings."""
    rest, form = divmod(k, len(words.DISTRIBUTED))
    volume, topic = divmod(rest, len(words.TOPICS))
    title = words.DISTRIBUTED[form].format(words.TOPICS[topic])
    return f"{title} (Volume {volume + 1})" if volume else title


def name(chance: Chance) -> str:
    if chance.happens(0.01):
        return chance.pick(words.ODD_NAMES)
    first, last = chance.pick(words.FIRST_NAMES), chance.pick(words.LAST_NAMES)
    middle = f" {chance.pick(_ALPHABET[:26])}." if chance.happens(0.4) else ""
    suffix = chance.pick(words.SUFFIXES) if chance.happens(0.03) else ""
    return f"{first}{middle} {last}{suffix}"


def prolific_name(k: int) -> str:
    """The k-th author who writes for a century; the first two have names that are hard to read."""
    first = words.FIRST_NAMES[k % len(words.FIRST_NAMES)]
    last = words.LAST_NAMES[(k * 7 + 3) % len(words.LAST_NAMES)]
    return f"{first} Everly {last}" + (", Jr.", " O'Neill", "")[min(k, 2)]


def authors(chance: Chance) -> str:
    """A list of authors as the data set writes it, or one of the odd forms."""
    odd = chance.random()
    if odd < 0.068:
        return ""
    if odd < 0.071:
        return "[]"
    if odd < 0.075:
        return name(chance)
    if odd < 0.077:
        return repr(["", name(chance)])
    return repr([name(chance) for _ in range(chance.pick(_AUTHORS))])


def categories(chance: Chance) -> str:
    if chance.happens(0.145):
        return ""
    return repr(chance.pick(words.CATEGORIES))


def year(chance: Chance) -> int:
    return min(chance.pick(words.DECADES) * 10 + chance.below(10), 2024)


def date(of_year: int, chance: Chance) -> str:
    """A date of that year, in one of the forms from which the year can be read."""
    form = chance.random()
    if form < 0.46:
        return str(of_year)
    month = 1 + chance.below(12)
    if form < 0.54:
        return f"{of_year}-{month:02d}"
    if form < 0.545:
        return f"{of_year}*"
    return f"{of_year}-{month:02d}-{1 + chance.below(28):02d}"


def any_date(chance: Chance) -> str:
    odd = chance.random()
    if odd < 0.034:
        return ""
    if odd < 0.041:
        return chance.pick(words.ODD_DATES)
    return date(year(chance), chance)


def code(length: int, chance: Chance) -> str:
    """Random capital letters and digits."""
    random, alphabet = chance.random, _ALPHABET
    return "".join([alphabet[int(random() * 36)] for _ in range(length)])


def isbn(number: int) -> str:
    """Ten characters, the last one a check digit (or X); the same number gives the same one."""
    digits = f"{number * 387_420_489 % 1_000_000_007 % 1_000_000_000:09d}"
    check = sum((i + 1) * int(digit) for i, digit in enumerate(digits)) % 11
    return digits + ("X" if check == 10 else str(check))
