"""Java's properties files, as java.util.Properties reads them.

    # a comment             ! another
    name=value              name : value            name value
    long = one \\
           two              is "one two"
    tab\\tand\\u0041          escapes: \\t \\n \\r \\f, \\uXXXX; before any other character the backslash goes
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kcoord.exceptions import InvalidInput

_BLANK: Final = " \t\f"
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
# A name ends at the first separator without a backslash before it; the separators = and : may have blanks around them.
_NAME: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


class BadProperties(InvalidInput, ValueError):
    """An error: a properties file that Java would not read either. The message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a Java properties file; `line` is the number of its first line, counted from 1."""

    name: str
    value: str
    line: int
    """The number of its first line, counted from 1."""


def read_properties(text: str) -> dict[str, str]:
    """Parses the text of a Java properties file, and returns values by name; the last value of a repeated name counts.
    Raises BadProperties.
    """
    return {each.name: each.value for each in properties_of(text)}


def read_properties_file(path: Path) -> list[Property]:
    """Reads a Java properties file, and returns all its properties in order. Raises OSError, or BadProperties with the
    file's name.
    """
    # Kafka's tools read Latin-1, and a password must be the same here as there.
    return list(properties_of(path.read_text(encoding="latin-1"), name=f"{path}:"))


def properties_of(text: str, *, name: str = "line ") -> Iterator[Property]:
    """Yields every property of a Java properties file's text in order; error messages begin with `name` and the line
    number.
    """
    for line, logical in _logical_lines(text):
        found = _NAME.match(logical)
        assert found, "it matches anything"
        try:
            yield Property(name=_unescape(found[1]), value=_unescape(logical[found.end() :]), line=line)
        except ValueError as error:
            raise BadProperties(f"{name}{line}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields logical lines: lines joined at a backslash at their end, without comments and blank lines."""
    first, parts = 0, list[str]()
    lines = re.split(r"\r\n|\n|\r", text)
    if not lines[-1]:
        lines.pop()  # the text ends with a line break
    for number, natural in enumerate(lines, start=1):
        stripped = natural.lstrip(_BLANK)
        if not any(parts):  # also after a lone backslash: Java still accepts a comment there
            parts.clear()
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        is_continued = (len(stripped) - len(stripped.rstrip("\\"))) % 2 == 1
        parts.append(stripped[:-1] if is_continued else stripped)
        if not is_continued:
            yield first, "".join(parts)
            parts.clear()
    if parts:
        yield first, "".join(parts)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_match, text) if "\\" in text else text


def _unescape_match(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] != "u":
        return _LETTERS.get(escape, escape)
    if not re.fullmatch("u[0-9a-fA-F]{4}", escape):
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return chr(int(escape[1:], 16))
