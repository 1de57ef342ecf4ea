"""The notation of schemas: messages and records are declared as text, which is parsed when it is first needed.

    name type          a field; the indented lines below it are the fields of a struct
    {} and []          a struct, and any number of structs; []int32 is an array of numbers
    ?                  it may be null; `null N`: it may be null since that version
    since N, until N   the versions that have it, if not all of them do
    tag N              it is a tagged field at the end of its struct, written only if it is not its default
    default X          its value where it is absent, if that is not the zero of its type; null as well

Before the first flexible version lengths have a fixed size (2 bytes for strings, 4 for bytes and arrays); from it on
they are varints, one more than the length, and every struct ends in tagged fields (KIP-482).
"""

from functools import cached_property
from typing import Any, Final, NamedTuple

INTEGERS: Final = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
"""The integer types, and their codes for struct."""
NUMBERS: Final = {"bool": "?", **INTEGERS, "error": "h", "uuid": "16s"}
"""The types of fixed size, and their codes for struct."""
LONGEST_STRING: Final = 0x7FFF
NEVER: Final = 1 << 15
"""A version that nothing reaches."""


class Field(NamedTuple):
    """A field of a schema: its name, its type, the versions that have it, and its tag if it is a tagged field. `fields`
    are those of a struct."""

    name: str
    type: str
    """The type of one element, if it is an array; "{}" is a struct."""
    is_array: bool
    fields: "Fields"
    since: int
    until: int
    null_since: int
    tag: int | None
    default: Any

    def is_in(self, version: int) -> bool:
        """Returns whether this version has the field."""
        return self.since <= version <= self.until

    def is_nullable(self, version: int) -> bool:
        """Returns whether the field may be null in this version."""
        return version >= self.null_since


Fields = tuple[Field, ...]


class Schema:
    """The fields of a request, a response, a record's key or value, or embedded bytes, with their versions. Each is
    equal to itself alone, which makes it a fast cache key."""

    def __init__(self, text: str, *, versions: range = range(1), flexible_since: int = NEVER) -> None:
        self.versions = versions
        self._text = text
        self._flexible_since = flexible_since

    @cached_property
    def fields(self) -> Fields:
        """The fields of all versions, in their order. The text is parsed when they are first needed."""
        return _parse(self._text)

    def is_flexible(self, version: int) -> bool:
        """Returns whether this version has compact lengths and tagged fields (KIP-482)."""
        return version >= self._flexible_since


class ApiSchema:
    """The schemas of the request and the response of one API, in the versions that a client supports."""

    def __init__(self, versions: range, flexible_since: int, request: str, response: str) -> None:
        self.versions = versions
        self.request = Schema(request, versions=versions, flexible_since=flexible_since)
        self.response = Schema(response, versions=versions, flexible_since=flexible_since)

    def is_flexible(self, version: int) -> bool:
        """Returns whether this version has compact lengths and tagged fields (KIP-482)."""
        return self.request.is_flexible(version)


def _parse(text: str) -> Fields:
    """Parses the fields of a struct."""
    lines = [(len(line) - len(line.lstrip()), line.split()) for line in text.splitlines() if line.strip()]
    return _fields(lines, 0)[0] if lines else ()


def _fields(lines: list[tuple[int, list[str]]], index: int) -> tuple[Fields, int]:
    """Parses the fields from this line on at its depth, and returns the index of the line behind them."""
    depth = lines[index][0]
    fields = []
    while index < len(lines) and lines[index][0] == depth:
        words = lines[index][1]
        index += 1
        inner: Fields = ()
        if index < len(lines) and lines[index][0] > depth:
            inner, index = _fields(lines, index)
        fields.append(_field(words, inner))
    return tuple(fields), index


def _field(words: list[str], inner: Fields) -> Field:
    name, kind = words[:2]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    is_array, is_nullable = kind.startswith("[]"), kind.endswith("?")
    type_ = kind.removeprefix("[]").removesuffix("?") or "{}"
    return Field(
        name,
        type_,
        is_array,
        inner,
        since=int(options.get("since", 0)),
        until=int(options.get("until", NEVER)),
        null_since=0 if is_nullable else int(options.get("null", NEVER)),
        tag=int(options["tag"]) if "tag" in options else None,
        default=_default(options["default"]) if "default" in options else () if is_array else _zero(type_, inner),
    )


def _zero(type_: str, inner: Fields) -> Any:
    """Returns the zero of a type. That of a struct has the defaults of its fields."""
    return {field.name: field.default for field in inner} if type_ == "{}" else _ZEROS.get(type_, 0)


_ZEROS: Final = {"string": "", "bytes": b"", "bool": False, "uuid": None}
_WORDS: Final = {"null": None, "true": True}


def _default(word: str) -> Any:
    return _WORDS[word] if word in _WORDS else int(word)
