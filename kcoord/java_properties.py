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

_BLANK: Final = " \t\f"
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)", re.DOTALL)
# A name goes on to the first separator that no backslash stands before; one of = and : may have blanks around it.
_NAME: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)


class BadProperties(ValueError):
    """A file that Java would not read either; the message says in which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    name: str
    value: str
    line: int
    """Where it begins, counted from 1."""


def read_properties(text: str) -> dict[str, str]:
    """Names and values; of a name that comes twice, the last. Raises BadProperties."""
    return {each.name: each.value for each in properties_of(text)}


def read_properties_file(path: Path) -> list[Property]:
    """All of a file, in its order. Raises BadProperties with its name, OSError."""
    # Latin-1, as Kafka's tools read it: what they take for a password, we must take for the same.
    return list(properties_of(path.read_text(encoding="latin-1"), name=f"{path}:"))


def properties_of(text: str, *, name: str = "line ") -> Iterator[Property]:
    """Every property in order; the name stands before the line number in errors."""
    for line, logical in _logical_lines(text):
        found = _NAME.match(logical)
        assert found, "it matches anything"
        try:
            yield Property(name=_unescaped(found[1]), value=_unescaped(logical[found.end() :]), line=line)
        except ValueError as error:
            raise BadProperties(f"{name}{line}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines put together where a backslash at their end says so, without comments and blank lines."""
    first, parts = 0, list[str]()
    lines = re.split(r"\r\n|\n|\r", text)
    if not lines[-1]:
        lines.pop()  # the last line ended, and nothing came after it
    for number, natural in enumerate(lines, start=1):
        stripped = natural.lstrip(_BLANK)
        if not any(parts):  # also where a lone backslash came before: Java then looks for a comment still
            parts.clear()
            if not stripped or stripped[0] in "#!":
                continue
            first = number
        goes_on = (len(stripped) - len(stripped.rstrip("\\"))) % 2 == 1
        parts.append(stripped[:-1] if goes_on else stripped)
        if not goes_on:
            yield first, "".join(parts)
            parts.clear()
    if parts:
        yield first, "".join(parts)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_meant, text) if "\\" in text else text


def _meant(found: re.Match[str]) -> str:
    escape = found[1]
    if escape[0] != "u":
        return _LETTERS.get(escape, escape)
    if not re.fullmatch("u[0-9a-fA-F]{4}", escape):
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return chr(int(escape[1:], 16))
