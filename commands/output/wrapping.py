"""Text folded into lines of a width: names are broken after punctuation, sentences between words."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Final

from .printable import char_width, printable, width

_MARK: Final = r"(?:[;/|_-]|[,.:](?!\d))"
"""The punctuation at which a name may be broken. Not inside 2,000 or 10.0.0.7, since half a number is another
number."""
_MIN_ROOM: Final = 20


def fold(text: str, room: int) -> list[str]:
    """Folds a text into parts of at most `room` terminal cells, each broken at a blank, or else after punctuation if
    that leaves it at least half full."""
    if text.isascii():
        return [part.strip() or part[:room] for part in _parts(room).findall(text)] or [""]
    parts = []
    while width(text) > room:
        cut = _break_position(text, room)
        parts.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*parts, text]


def longest_word(texts: Iterable[str], most: int) -> int:
    """Returns the width, in terminal cells, of the widest word of the texts, among those that are at most
    `most` wide."""
    words = {word for text in texts for word in text.split(" ")}
    return max((wide for wide in map(width, words) if wide <= most), default=0)


def fill(words: Iterable[str], room: int) -> list[str]:
    """Joins words to lines of at most `room` terminal cells; a longer word has a line of its own."""
    lines: list[str] = []
    for word in words:
        if lines and width(lines[-1] + word.rstrip()) <= room:
            lines[-1] += word
        else:
            lines.append(word)
    return [line.rstrip() for line in lines]


def fill_facts(text: str, room: int) -> list[str]:
    """Breaks a text such as `orders · Stable · lag 3` into lines that end at the dots; if a part does not fit, between
    words."""
    facts = re.findall(r".+?(?: · |$)", text)
    if all(width(fact.rstrip()) <= room for fact in facts):
        return fill(facts, room)
    return [part for line in fill(re.findall(r"\S+ ?", text), room) for part in fold(line, room)]


def wrapped(text: str, columns: int | None, *, first: str = "", then: str = "") -> list[str]:
    """Wraps a text between words into lines of this many terminal cells, and folds a word that is wider than the line.
    Without columns nothing is broken. `first` and `then` begin the first and the other lines."""
    words = printable(text).split(" ")
    if columns is None:
        return [first + " ".join(words)]
    room = max(_MIN_ROOM, columns - width(first))
    lines: list[str] = []
    for part in _folded_words(words, room):
        if lines and width(lines[-1]) + 1 + width(part) <= room:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return [(then if number else first) + line for number, line in enumerate(lines)]


@lru_cache(maxsize=64)
def _parts(room: int) -> re.Pattern[str]:
    """Returns the pattern of a part: the rest of the text, or up to a blank or punctuation, or as many characters as
    fit."""
    half = max(0, room // 2 - 1)  # characters before the punctuation
    return re.compile(rf".{{1,{room}}}$|.{{1,{room}}} |.{{{half},{room - 1}}}{_MARK}|.{{{room}}}")


def _break_position(text: str, room: int) -> int:
    ends = accumulate(map(char_width, text))
    cut = max(1, next(index for index, end in enumerate(ends) if end > room))
    blank = text.rfind(" ", 1, cut + 1)
    marks = [found.end() for found in re.finditer(_MARK, text) if cut // 2 <= found.end() <= cut]
    return blank + 1 or max(marks, default=cut)


def _folded_words(words: Iterable[str], room: int) -> Iterator[str]:
    for word in words:
        yield from fold(word, room)
