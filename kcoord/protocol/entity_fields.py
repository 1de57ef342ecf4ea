"""The wire fields of kio's entity classes: the fields of one version in their order, as data.

The validators of incoming bodies (protocol/validate) and the writers of outgoing ones (protocol/encode) are generated
from this description.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import timedelta
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from kcoord.errors import ErrorCode

TYPE_SIZES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "uint8": 1,
        "int16": 2,
        "uint16": 2,
        "error_code": 2,
        "int32": 4,
        "uint32": 4,
        "timedelta_i32": 4,
        "int64": 8,
        "uint64": 8,
        "float64": 8,
        "timedelta_i64": 8,
        "datetime_i64": 8,
        "uuid": 16,
    }
)
"""The sizes in bytes of Kafka's fixed-size types, by kio's names."""

_ZERO_VALUES: Final[Mapping[str, object]] = MappingProxyType(
    {"bool": False, "string": "", "bytes": b"", "records": b"", "uuid": None, "error_code": ErrorCode.none}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of an entity class of kio: its name, its Kafka type, whether it is an array or nullable, its tag (None
    for a plain field) and its default. `entity` is set where the value, or each element, is an entity itself."""

    name: str
    kafka_type: str
    entity: type | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object

    @property
    def size(self) -> int | None:
        """The bytes of the value, or of one element, if its type has a fixed size, else None."""
        return TYPE_SIZES.get(self.kafka_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The fields of an entity class of kio as they are on the wire: the plain fields in order, then the tagged ones by
    tag."""

    is_flexible: bool
    plain: tuple[Field, ...]
    tagged: tuple[Field, ...]

    @property
    def least_size(self) -> int:
        """The fewest bytes that an entity of this class can take on the wire."""
        return sum(map(least_size, self.plain)) + self.is_flexible


def shape_of(entity_type: type) -> Shape:
    """Returns the wire fields of an entity class of kio."""
    described = [_describe(field) for field in fields(entity_type)]
    tagged = [field for field in described if field.tag is not None]
    return Shape(
        is_flexible=entity_type.__flexible__,  # type: ignore[attr-defined]
        plain=tuple(field for field in described if field.tag is None),
        tagged=tuple(sorted(tagged, key=lambda field: field.tag or 0)),
    )


def least_size(field: Field) -> int:
    """Returns the fewest bytes that the field can take on the wire; a length counts as one byte, as in flexible
    versions."""
    if field.is_array or field.size is None:
        return 1
    return field.size


def least_element_size(field: Field) -> int:
    """Returns the fewest bytes that one element of an array field can take on the wire."""
    if field.entity is not None:
        return max(1, shape_of(field.entity).least_size)
    return field.size or 1


def _describe(field: Any) -> Field:
    inner, is_nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    is_entity = hasattr(inner, "__flexible__")
    kafka_type = "entity" if is_entity else field.metadata["kafka_type"]
    return Field(
        name=field.name,
        kafka_type=kafka_type,
        entity=inner if is_entity else None,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=field.metadata.get("tag"),
        default=_default(field, kafka_type, is_array),
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is not UnionType:
        return annotation, False
    types = [arg for arg in get_args(annotation) if arg is not NoneType]
    assert len(types) == 1, annotation
    return types[0], True


def _default(field: Any, kafka_type: str, is_array: bool) -> object:
    if field.default is not MISSING:
        return field.default
    if is_array:
        return ()
    if kafka_type.startswith("timedelta"):
        return timedelta(0)
    return _ZERO_VALUES.get(kafka_type, 0)
