"""Writers of entities: one function for each entity class, generated from kio's description of it.

A writer takes any object that has the fields of its version under kio's names: a kio entity, or one of kcoord's
version-free replies, of which each version takes the fields that it knows. Times may be kio's timedelta and datetime,
or kcoord's seconds as float and milliseconds since the epoch as int.

    write(entity, out)        appends byte strings to the list `out`, which the caller joins once

Runs of fixed-size fields, together with the length of what follows them, are one struct.pack.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from kcoord.protocol.entity_fields import Field, Shape, shape_of
from kcoord.protocol.varint import uvarint

Write = Callable[[Any, list[bytes]], None]

_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "timedelta_i32": "i",
    "int64": "q",
    "uint64": "Q",
    "float64": "d",
    "timedelta_i64": "q",
    "datetime_i64": "q",
    "uuid": "16s",
}
_CONVERSIONS: Final = {
    "timedelta_i32": "milliseconds({})",
    "timedelta_i64": "milliseconds({})",
    "datetime_i64": "epoch_milliseconds({})",
    "uuid": "uuid_bytes({})",
}
_SMALL_UVARINTS: Final = tuple(bytes([value]) for value in range(128))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@cache
def compiled_writer(entity_type: type) -> Write:
    """Returns the writer of one of kio's entity classes: a generated function that takes an entity, or any object with
    its fields, and a list that it appends the encoded bytes to."""
    return _compiled(shape_of(entity_type))


class SplitWriter(NamedTuple):
    """The writer of an entity class in three parts: up to a field, the field itself, and the rest, so that the shared
    parts of many responses are encoded once."""

    before: Write
    field: Write
    after: Write


@cache
def split_writer(entity_type: type, field_name: str) -> SplitWriter:
    """Returns the writer of an entity class in three parts, split around one of its fields."""
    shape = shape_of(entity_type)
    index = [field.name for field in shape.plain].index(field_name)
    return SplitWriter(
        before=_compiled_fields(shape.plain[:index], shape.is_flexible),
        field=_compiled_fields(shape.plain[index : index + 1], shape.is_flexible),
        after=_compiled(replace(shape, plain=shape.plain[index + 1 :])),
    )


def milliseconds(value: timedelta | float) -> int:
    """Converts a duration, a timedelta or seconds as float, to milliseconds."""
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    return round(value * 1000)


def epoch_milliseconds(value: datetime | int | None) -> int:
    """Converts a time, a datetime or milliseconds, to milliseconds since the Unix epoch; None to -1."""
    if value is None:
        return -1
    return value if isinstance(value, int) else (value - _EPOCH) // _MILLISECOND


def _uuid_bytes(value: Any) -> bytes:
    return bytes(16) if value is None else value.bytes


class _Source:
    """Lines of generated code, and the fixed-size values that wait to be packed together."""

    def __init__(self) -> None:
        self.lines = ["def write(e, out):", "    a = out.append"]
        self.pending: list[tuple[str, str]] = []
        self.names = 0
        self.scope: dict[str, object] = {
            "milliseconds": milliseconds,
            "epoch_milliseconds": epoch_milliseconds,
            "uuid_bytes": _uuid_bytes,
            "small": _SMALL_UVARINTS,
            "uvarint": uvarint,
        }

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, value: object) -> str:
        name = self.name("constant")
        self.scope[name] = value
        return name

    def pack(self, form: str, expression: str) -> None:
        self.pending.append((form, expression))

    def flush(self, depth: int) -> None:
        """Emits the pending values as one pack."""
        if not self.pending:
            return
        if self.pending == [("B", "0")]:
            self.line(depth, "a(b'\\0')")
        else:
            form = ">" + "".join(form for form, _ in self.pending)
            packer = self.constant(Struct(form).pack)
            self.line(depth, f"a({packer}({', '.join(expression for _, expression in self.pending)}))")
        self.pending = []

    def uvarint(self, depth: int, expression: str) -> None:
        n = self.name("n")
        self.line(depth, f"{n} = {expression}")
        self.line(depth, f"a(small[{n}] if {n} < 128 else uvarint({n}))")

    def compile(self) -> Write:
        self.flush(1)
        exec("\n".join(self.lines), self.scope)  # noqa: S102 - the code is made from kio's classes alone
        return self.scope["write"]  # type: ignore[return-value]


def _compiled(shape: Shape) -> Write:
    source = _Source()
    _entity(source, 1, shape, "e")
    return source.compile()


def _compiled_fields(fields: Sequence[Field], is_flexible: bool) -> Write:
    source = _Source()
    _fields(source, 1, fields, is_flexible, "e")
    return source.compile()


def _fields(source: _Source, depth: int, fields: Sequence[Field], is_flexible: bool, owner: str) -> None:
    for field in fields:
        _field(source, depth, field, is_flexible, f"{owner}.{field.name}")


def _entity(source: _Source, depth: int, shape: Shape, owner: str) -> None:
    _fields(source, depth, shape.plain, shape.is_flexible, owner)
    if shape.is_flexible and not shape.tagged:
        source.pack("B", "0")
    elif shape.is_flexible:
        source.flush(depth)
        _tagged_fields(source, depth, shape, owner)


def _field(source: _Source, depth: int, field: Field, is_flexible: bool, value: str) -> None:
    if field.is_array:
        _array(source, depth, field, is_flexible, value)
    elif field.entity is not None and field.is_nullable and field.tag is None:
        _nullable_entity(source, depth, field, value)
    elif field.entity is not None:
        _entity(source, depth, shape_of(field.entity), value)
    else:
        _primitive(source, depth, field, is_flexible, value)


def _primitive(source: _Source, depth: int, field: Field, is_flexible: bool, value: str) -> None:
    if field.kafka_type in _FORMATS:
        expression = _CONVERSIONS.get(field.kafka_type, "{}").format(value)
        source.pack(_FORMATS[field.kafka_type], expression)
        return
    v = source.name("v")
    encode = ".encode()" if field.kafka_type == "string" else ""
    if field.is_nullable and field.tag is None:
        source.line(depth, f"{v} = {value}")
        source.line(depth, f"if {v} is not None: {v} = {v}{encode}")
        _length(source, depth, field, is_flexible, f"-1 if {v} is None else len({v})")
        source.line(depth, f"if {v}: a({v})")
    else:
        source.line(depth, f"{v} = {value}{encode}")
        _length(source, depth, field, is_flexible, f"len({v})")
        source.line(depth, f"a({v})")


def _array(source: _Source, depth: int, field: Field, is_flexible: bool, value: str) -> None:
    items, item = source.name("items"), source.name("item")
    source.line(depth, f"{items} = {value}")
    length = f"-1 if {items} is None else len({items})" if field.is_nullable else f"len({items})"
    _length(source, depth, field, is_flexible, length)
    source.line(depth, f"for {item} in {items} or ():" if field.is_nullable else f"for {item} in {items}:")
    if field.entity is not None:
        _entity(source, depth + 1, shape_of(field.entity), item)
    else:
        _primitive(source, depth + 1, _element(field), is_flexible, item)
    source.flush(depth + 1)
    if not source.lines[-1].startswith("    " * (depth + 1)):
        source.line(depth + 1, "pass")


def _element(field: Field) -> Field:
    return Field(
        name=field.name,
        kafka_type=field.kafka_type,
        entity=None,
        is_array=False,
        is_nullable=False,
        tag=None,
        default=None,
    )


def _nullable_entity(source: _Source, depth: int, field: Field, value: str) -> None:
    """Writes a nullable entity (KIP-893): a marker byte comes before it, negative for null."""
    assert field.entity is not None
    source.flush(depth)
    v = source.name("v")
    source.line(depth, f"{v} = {value}")
    source.line(depth, f"if {v} is None: a(b'\\xff')")
    source.line(depth, "else:")
    source.line(depth + 1, "a(b'\\x01')")
    _entity(source, depth + 1, shape_of(field.entity), v)
    source.flush(depth + 1)


def _length(source: _Source, depth: int, field: Field, is_flexible: bool, length: str) -> None:
    """Writes the length before a string, bytes or an array, in one pack with the pending values."""
    if not is_flexible:
        form = "h" if field.kafka_type == "string" and not field.is_array else "i"
        source.pack(form, length)
        source.flush(depth)
        return
    source.flush(depth)
    source.uvarint(depth, f"({length}) + 1")


def _tagged_fields(source: _Source, depth: int, shape: Shape, owner: str) -> None:
    tags, outer = source.name("tags"), source.name("kept")
    source.line(depth, f"{tags} = []")
    for field in shape.tagged:
        default = source.constant(field.default)
        value = f"{owner}.{field.name}"
        source.line(depth, f"if {value} != {default} and {value} is not None:")
        source.line(depth + 1, f"{outer} = out; out = []; a = out.append")
        _field(source, depth + 1, field, is_flexible=True, value=value)
        source.flush(depth + 1)
        source.line(depth + 1, f"{tags}.append(({field.tag}, b''.join(out))); out = {outer}; a = out.append")
    source.uvarint(depth, f"len({tags})")
    source.line(depth, f"for tag, content in {tags}: a(uvarint(tag)); a(uvarint(len(content))); a(content)")
