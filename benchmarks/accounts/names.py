"""Which names can be signed up with: of one script, not reserved, and not to be taken for a name that there is.

`reserved_names.txt` is the list of reserved ones. Does NOT look at names that staff give, and does NOT know every pair
of letters that look alike: those of Latin, Greek and Cyrillic, and the digits that are taken for letters.
"""

import unicodedata
from functools import cache
from pathlib import Path

from django.contrib.auth.models import User

from ..models import Team

MARKS_IN = ("DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "THAI", "ARABIC", "HEBREW")  # scripts whose words need marks
_ONE = {"HIRAGANA": "HAN", "KATAKANA": "HAN", "CJK": "HAN", "HANGUL": "HAN", "BOPOMOFO": "HAN"}  # written together
_PUNCTUATION = ".@+-_"
_LOOKS_LIKE = {
    **dict(zip("авекмнорстухіјѕԁһԛԝӏьгпц", "abekmhopctyxijsdhqwlbrnu", strict=True)),
    **dict(zip("αβγεζηικνορτυχωϲϳ", "abyeznikvoptuxwcj", strict=True)),
    "0": "o",
    **dict(zip("ıɑɡɩʟ", "iagil", strict=True)),
}
_TABLE = str.maketrans(_LOOKS_LIKE)


def normal(name: str) -> str:
    """The name in its stored form."""
    return unicodedata.normalize("NFKC", name)


def problem_with(name: str) -> str:
    """Why nobody can sign up with the name, a sentence for the person; empty where they can."""
    if not any(character.isalnum() for character in name):
        return "A name has at least one letter or digit."
    found = _strange(name)
    if found:
        return f"A name has letters, digits and {' '.join(_PUNCTUATION)} only; {found}"
    scripts = sorted({_script(character) for character in name if character.isalpha()})
    if len(scripts) > 1:
        words = " and ".join(script.capitalize() for script in scripts)
        return f"All letters of a name must be of one script, because others can look the same; these are {words}."
    if {_bare(look) for look in looks(name)} & _reserved():
        return "This name is reserved. Choose another one."
    return ""


def is_taken(name: str) -> bool:
    """Whether an account or a team has this name, or one that looks the same."""
    wanted = looks(name)
    accounts = User.objects.order_by().values_list("username", flat=True)
    teams = Team.objects.order_by().values_list("name", flat=True)
    return any(wanted & looks(known) for names in (accounts, teams) for known in names.iterator(chunk_size=2000))


@cache
def _reserved() -> frozenset[str]:
    lines = (Path(__file__).parent / "reserved_names.txt").read_text().splitlines()
    return frozenset(_bare(look) for line in lines if not line.startswith("#") for look in looks(line))


def _bare(name: str) -> str:
    return "".join(character for character in name if character not in _PUNCTUATION)


def looks(name: str) -> frozenset[str]:
    """What the name looks like: names that share one of these can be taken for one another.

    A capital I and a 1 are both an i and an l.
    """
    plain = normal(name)
    return frozenset(_folded(plain.translate({ord("I"): letter, ord("1"): letter})) for letter in "il")


def _folded(name: str) -> str:
    bare = name.casefold()
    if not bare.isascii():
        parts = unicodedata.normalize("NFKD", bare)
        bare = "".join(part for part in parts if unicodedata.category(part) != "Mn")
    return bare.translate(_TABLE).replace("rn", "m").replace("vv", "w")


def _strange(name: str) -> str:
    """What a name must not have, as the end of a sentence."""
    for place, character in enumerate(name, 1):
        kind = unicodedata.category(character)
        of_word = kind[0] == "M" and place > 1 and _script(name[0]) in MARKS_IN
        if not (kind[0] == "L" or character in _PUNCTUATION or character in "0123456789" or of_word):
            shown = unicodedata.name(character, f"U+{ord(character):04X}").lower()
            return f"character {place} is {shown}."
    return ""


def _script(character: str) -> str:
    """By the first word of the character's name in Unicode: LATIN, CYRILLIC, CJK."""
    word = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return _ONE.get(word, word)
