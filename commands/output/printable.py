"""Escaping and measuring of text for a terminal: names in a cluster may contain control characters and wide ones."""

import unicodedata
from typing import Final

_TWO_CELLS: Final = ("W", "F")  # East Asian wide and full width
_NO_CELL: Final = ("Mn", "Me")  # marks that combine with the character before them
_HANGUL_TAILS: Final = range(0x1160, 0x1200)  # vowels and finals that join the syllable before them


def printable(text: str) -> str:
    """Escapes all characters of a text that a terminal would interpret: controls, line breaks, marks of direction,
    zero-width characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escaped(char) for char in text)


def escaped(char: str) -> str:
    """Escapes one character, such as a newline, as in a Python string."""
    return char.encode("unicode_escape").decode()


def width(text: str) -> int:
    """Returns how many cells of a terminal the printable text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def char_width(char: str) -> int:
    """Returns how many cells of a terminal a character takes: 0, 1 or 2."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in _NO_CELL or ord(char) in _HANGUL_TAILS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _TWO_CELLS else 1
