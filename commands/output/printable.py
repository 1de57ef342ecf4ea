"""Text from a cluster on its way to a terminal: what the terminal would act on is escaped, and how wide the rest is."""

import unicodedata
from typing import Final

_TWO_CELLS: Final = ("W", "F")  # East Asian wide and full width
_NO_CELL: Final = ("Mn", "Me")  # marks that stand on the character before them
_HANGUL_TAILS: Final = range(0x1160, 0x1200)  # vowels and finals that join the syllable before them


def printable(text: str) -> str:
    """The text with all that a terminal would act on escaped: controls, line breaks, marks of direction, no width."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escaped(char) for char in text)


def escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def width(text: str) -> int:
    """How many cells of a terminal printable text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def char_width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in _NO_CELL or ord(char) in _HANGUL_TAILS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _TWO_CELLS else 1
