"""Parses DER, as far as certificates need it: sequences of elements, times, and object identifiers."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
_TIMES: Final = {0x17: 13, 0x18: 15}
"""The tags of UTCTime and GeneralizedTime, with their lengths in certificates (RFC 5280, 4.1.2.5)."""
_CENTURY_ENDS: Final = "50"  # a year of two digits is 1950 to 2049


class Element(NamedTuple):
    """An element of DER (the encoding of X.509 certificates): its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def elements(content: bytes) -> Iterator[Element]:
    """Parses DER bytes, and yields the elements in them. Raises ValueError or IndexError, as all functions of this
    module.
    """
    position = 0
    while position < len(content):
        tag, size, start = content[position], content[position + 1], position + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(content[position + 2 : start])
        if start + size > len(content):
            raise ValueError("an element is longer than what holds it")
        yield Element(tag, content[start : start + size], content[position : start + size])
        position = start + size


def only(content: bytes, tag: int) -> Element:
    """Parses DER bytes that must be exactly one element of this tag, and returns it. Raises ValueError otherwise."""
    (element,) = elements(content)
    if element.tag != tag:
        raise ValueError("another element was expected")
    return element


def time_of(element: Element) -> datetime:
    """Parses a DER element that is a UTCTime or a GeneralizedTime. Raises ValueError otherwise."""
    text = element.content.decode("ascii")
    if len(text) != _TIMES.get(element.tag):
        raise ValueError("a time was expected")
    if element.tag == min(_TIMES):
        text = ("20" if text < _CENTURY_ENDS else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def dotted(content: bytes) -> str:
    """Formats the content of a DER object identifier in dotted form, such as 2.5.4.3."""
    first, *others = _base_128(content)
    top = min(first // 40, 2)
    return ".".join(map(str, (top, first - 40 * top, *others)))


def _base_128(content: bytes) -> Iterator[int]:
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            yield number
            number = 0
