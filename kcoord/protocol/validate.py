"""Validate a body before kio reads it: check lengths against the bytes that are there, cut out unknown tagged fields.

Theory of operation. kio's native reader trusts its input: it allocates by the claimed length of an array (a wrong one
aborts the process), and it raises on a tag that it does not know, where the protocol demands to skip it (KIP-482). So a
function is generated for each entity class, which steps over the fields without building anything:

    check(body, start) -> patches        raises CorruptMessage

It is straight-line code: runs of fixed-size fields are one addition, nested entities are inlined loops. A step past
the end is caught late (a read beyond the end raises, and the last position is compared with the length). That is safe
because positions only grow and nothing is allocated. The patches are None in the common case; otherwise
`apply_patches` turns the body into one that kio can read.

A null array is refused where it is not allowed, which kio lets pass, and a boolean above 1 becomes 1, as Kafka reads
it. kio itself refuses the rest, with ordinary errors: other nulls that are not allowed, and text that is not UTF-8.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct, error
from typing import Any

from kcoord.protocol.entity_fields import Field, Shape, least_element_size, shape_of
from kcoord.protocol.frames import CorruptMessage
from kcoord.protocol.varint import BadVarint, read_uvarint, uvarint

__all__ = [
    "CorruptMessage",
    "FieldSpan",
    "Patch",
    "Search",
    "Skip",
    "Validate",
    "apply_patches",
    "compiled_search",
    "compiled_skip",
    "compiled_validator",
]

_FORMS = {"int32": "i", "int64": "q"}

Patch = tuple[int, int, bytes]
Validate = Callable[[bytes, int], list[Patch] | None]
FieldSpan = tuple[int, str]  # The position of a field, and its format for struct.
Search = Callable[[bytes, int], list[FieldSpan]]
Skip = Callable[[bytes, int], int]


@cache
def compiled_validator(entity_type: type, max_elements: int) -> Validate:
    """Generates the validator of an entity class: a function that checks the lengths in an untrusted body before kio
    decodes it, and returns patches to apply to it, None if it needs none. `max_elements` limits the elements of all its
    arrays together."""
    source = _Source()
    source.add(0, "def check(b, p):")
    source.add(1, f"end = len(b); budget = {max_elements}; cuts = None")
    source.add(1, "try:")
    _entity(source, 2, shape_of(entity_type))
    source.add(2, "pass")
    _end(source)
    source.add(1, "return cuts")
    validate: Validate = source.compile("check")
    return validate


@cache
def compiled_search(entity_type: type, field_name: str, last_field: str | None = None) -> Search:
    """Generates a search for the values of a field in the body of an entity, in their order: numbers, or bytes that are
    not null, each as its position and struct format. The search reads nothing behind `last_field`, tagged fields
    included. It raises CorruptMessage, as the validator does."""
    shape = shape_of(entity_type)
    source = _Source(wanted=field_name)
    source.add(0, "def search(b, p):")
    source.add(1, "end = len(b); budget = end; cuts = None; found = []")
    source.add(1, "try:")
    if last_field is None:
        _entity(source, 2, shape)
    else:
        last = [field.name for field in shape.plain].index(last_field)
        _plain_fields(source, 2, shape.plain[: last + 1], shape.is_flexible)
    source.add(2, "pass")
    _end(source)
    source.add(1, "return found")
    search: Search = source.compile("search")
    return search


@cache
def compiled_skip(entity_type: type) -> Skip:
    """Generates a function that returns the position at which the tagged fields at the end of an entity's body begin.
    It raises CorruptMessage."""
    shape = shape_of(entity_type)
    source = _Source()
    source.add(0, "def skip(b, p):")
    source.add(1, "end = len(b); budget = end; cuts = None")
    source.add(1, "try:")
    _plain_fields(source, 2, shape.plain, shape.is_flexible)
    source.add(2, "pass")
    _end(source)
    source.add(1, "return p")
    skip: Skip = source.compile("skip")
    return skip


def apply_patches(body: bytes, patches: list[Patch]) -> bytes:
    """Returns the body with the bytes of each patch (start, end, replacement) replaced, which makes an untrusted body
    one that kio can decode."""
    parts, position = [], 0
    for start, end, replacement in sorted(patches):
        parts += [body[position:start], replacement]
        position = end
    return b"".join([*parts, body[position:]])


class _Source:
    """Lines of generated code, and names that do not clash."""

    def __init__(self, wanted: str = "") -> None:
        self.wanted = wanted  # The name of the field to search for.
        self.lines: list[str] = []
        self.names = 0

    def add(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def compile(self, function: str) -> Any:
        scope: dict[str, object] = {
            "CorruptMessage": CorruptMessage,
            "BadVarint": BadVarint,
            "error": error,
            "i16": Struct(">h").unpack_from,
            "i32": Struct(">i").unpack_from,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
        }
        exec("\n".join(self.lines), scope)  # noqa: S102 - the code is made from kio's classes alone
        return scope[function]


def _end(source: _Source) -> None:
    source.add(1, "except (IndexError, error): raise CorruptMessage('the body ends too early') from None")
    source.add(1, "except BadVarint as bad: raise CorruptMessage(str(bad)) from None")
    source.add(1, "if p > end: raise CorruptMessage('the body ends too early')")


def _entity(source: _Source, depth: int, shape: Shape) -> None:
    _plain_fields(source, depth, shape.plain, shape.is_flexible)
    if shape.is_flexible:
        _tagged_fields(source, depth, shape)


def _plain_fields(source: _Source, depth: int, fields: tuple[Field, ...], is_flexible: bool) -> None:
    fixed = 0
    for field in fields:
        if field.size is not None and not field.is_array:
            if field.kafka_type == "bool":
                _boolean(source, depth, fixed)
            if field.name == source.wanted:
                source.add(depth, f"found.append((p + {fixed}, {_FORMS[field.kafka_type]!r}))")
            fixed += field.size
            continue
        if fixed:
            source.add(depth, f"p += {fixed}")
            fixed = 0
        _value(source, depth, field, is_flexible)
    if fixed:
        source.add(depth, f"p += {fixed}")


def _boolean(source: _Source, depth: int, ahead: int) -> None:
    at = f"p + {ahead}"
    source.add(depth, f"if b[{at}] > 1: cuts = cuts or []; cuts.append(({at}, {at} + 1, b'\\x01'))")


def _value(source: _Source, depth: int, field: Field, is_flexible: bool) -> None:
    if field.is_array:
        _array(source, depth, field, is_flexible)
    elif field.entity is not None:
        _nested(source, depth, field)
    elif field.size is not None:
        source.add(depth, f"p += {field.size}")
    else:
        _text(source, depth, field, is_flexible)


def _nested(source: _Source, depth: int, field: Field) -> None:
    assert field.entity is not None
    if field.is_nullable and field.tag is None:  # KIP-893: a marker byte comes first, negative for null.
        marker = source.name("marker")
        source.add(depth, f"{marker} = b[p]; p += 1")
        source.add(depth, f"if {marker} < 128:")
        depth += 1
    _entity(source, depth, shape_of(field.entity))


def _array(source: _Source, depth: int, field: Field, is_flexible: bool) -> None:
    n = _length(source, depth, "i32", is_flexible)
    if not field.is_nullable:
        source.add(depth, f"if {n} < 0: raise CorruptMessage('a null array of {field.name}')")
    source.add(depth, f"if {n} > 0:")
    least = least_element_size(field)
    source.add(
        depth + 1, f"if {n} * {least} > end - p: raise CorruptMessage('an array of {field.name} longer than its body')"
    )
    source.add(depth + 1, f"budget -= {n}")
    source.add(depth + 1, "if budget < 0: raise CorruptMessage('too many array elements')")
    if field.size is not None:
        source.add(depth + 1, f"p += {n} * {field.size}")
        return
    source.add(depth + 1, f"for _ in range({n}):")
    if field.entity is not None:
        _entity(source, depth + 2, shape_of(field.entity))
    else:
        _text(source, depth + 2, field, is_flexible)


def _text(source: _Source, depth: int, field: Field, is_flexible: bool) -> None:
    """Steps over a string or bytes. Compact lengths are one more, so that 0 is null and 1 is empty."""
    if not is_flexible:
        n = _length(source, depth, "i16" if field.kafka_type == "string" else "i32", is_flexible)
        source.add(depth, f"if {n} > 0: p += {n}")
        if field.name == source.wanted:
            source.add(depth, f"if {n} >= 0: found.append((p - {n}, str({n}) + 's'))")
        return
    n = source.name("n")
    source.add(depth, f"{n} = b[p]; p += 1")
    source.add(depth, f"if {n} > 1:")
    source.add(depth + 1, f"if {n} > 127: {n}, p = read_uvarint(b, p - 1)")
    if field.kafka_type == "string":  # Kafka limits it to what fits in versions that are not flexible.
        source.add(
            depth + 1, f"if {n} > 32768: raise CorruptMessage('a text of {field.name} of more than 32767 bytes')"
        )
    source.add(depth + 1, f"if {n} > 1: p += {n} - 1")
    if field.name == source.wanted:
        source.add(depth, f"if {n} > 0: found.append((p - {n} + 1, str({n} - 1) + 's'))")


def _length(source: _Source, depth: int, legacy: str, is_flexible: bool) -> str:
    """Reads a length into a new name: the legacy integer, or the compact varint that is one more."""
    n = source.name("n")
    if is_flexible:
        source.add(depth, f"{n} = b[p]; p += 1")
        source.add(depth, f"if {n} > 127: {n}, p = read_uvarint(b, p - 1)")
        source.add(depth, f"{n} -= 1")
        return n
    source.add(depth, f"{n} = {legacy}(b, p)[0]; p += {2 if legacy == 'i16' else 4}")
    source.add(depth, f"if {n} < -1: raise CorruptMessage('a negative length')")
    return n


def _tagged_fields(source: _Source, depth: int, shape: Shape) -> None:
    count, at, tag, size, close = (source.name(stem) for stem in ("count", "at", "tag", "size", "close"))
    start, dropped = source.name("start"), source.name("dropped")
    source.add(depth, f"{count} = b[p]; p += 1")
    source.add(depth, f"if {count}:")
    depth += 1
    source.add(depth, f"{at} = p - 1")
    source.add(depth, f"if {count} > 127: {count}, p = read_uvarint(b, {at})")
    source.add(depth, f"if {count} * 2 > end - p: raise CorruptMessage('more tagged fields than bytes')")
    source.add(depth, f"first{at} = p; {dropped} = 0")
    source.add(depth, f"for _ in range({count}):")
    source.add(depth + 1, f"{start} = p; {tag}, p = read_uvarint(b, p); {size}, p = read_uvarint(b, p)")
    source.add(depth + 1, f"{close} = p + {size}")
    source.add(depth + 1, f"if {close} > end: raise CorruptMessage('a tagged field longer than its body')")
    branch = "if"
    for field in shape.tagged:
        source.add(depth + 1, f"{branch} {tag} == {field.tag}:")
        _value(source, depth + 2, field, is_flexible=True)
        source.add(
            depth + 2, f"if p != {close}: raise CorruptMessage('the tagged field {field.name} has another size')"
        )
        branch = "elif"
    drop = f"{dropped} += 1; p = {close}; cuts = cuts or []; cuts.append(({start}, p, b''))"
    source.add(depth + 1, f"else: {drop}" if shape.tagged else drop)
    source.add(depth, f"if {dropped}: cuts.append(({at}, first{at}, uvarint({count} - {dropped})))")
