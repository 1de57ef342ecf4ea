"""The record schemas match Kafka's own schemas, which are in its jars."""

import json
import re
from typing import Any
from zipfile import ZipFile

import pytest

from kcoord.offsets_log.record_schemas import (
    CONSUMER_ASSIGNMENT,
    CONSUMER_SUBSCRIPTION,
    RECORD_TYPES,
)
from kcoord.protocol.schema.notation import Field, Schema
from kcoord.testing.jars import kafka_folder
from kcoord.testing.tools import JavaTools

KafkaSchema = dict[str, Any]


def schemas_of(jar_name: str) -> dict[str, KafkaSchema]:
    """Returns the schemas in a jar, by their name."""
    (jar,) = kafka_folder().joinpath("libs").glob(f"{jar_name}-[0-9]*.jar")
    with ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if name.startswith("common/message/")]
        texts = [archive.read(name).decode() for name in files if name.endswith(".json")]
    found = [json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)) for text in texts]
    return {schema["name"]: schema for schema in found}


@pytest.fixture(scope="module")
def group_schemas(java_tools: JavaTools) -> dict[str, KafkaSchema]:
    return schemas_of("kafka-group-coordinator")


def test_every_record_type_of_kafka_is_there_and_no_other(group_schemas: dict[str, KafkaSchema]) -> None:
    keys = {schema["apiKey"]: name for name, schema in group_schemas.items() if schema["type"] == "coordinator-key"}
    assert {number: f"{each.name}Key" for number, each in RECORD_TYPES.items()} == keys


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_a_record_type_is_laid_out_as_in_kafka(number: int, group_schemas: dict[str, KafkaSchema]) -> None:
    record_type = RECORD_TYPES[number]
    assert described(record_type.key) == expected(group_schemas[f"{record_type.name}Key"])
    assert described(record_type.value) == expected(group_schemas[f"{record_type.name}Value"])


@pytest.mark.parametrize(
    ("name", "schema"),
    [("ConsumerProtocolSubscription", CONSUMER_SUBSCRIPTION), ("ConsumerProtocolAssignment", CONSUMER_ASSIGNMENT)],
)
def test_what_consumers_put_into_their_bytes_is_laid_out_as_in_kafka(
    name: str, schema: Schema, java_tools: JavaTools
) -> None:
    assert described(schema) == expected(schemas_of("kafka-clients")[name])


def described(schema: Schema) -> Any:
    """Converts a schema to nested tuples."""
    most = schema.versions[-1]
    return (
        list(schema.versions),
        [version for version in schema.versions if schema.is_flexible(version)],
        [_described_field(field, most) for field in schema.fields],
    )


def expected(schema: KafkaSchema) -> Any:
    """Converts a schema of Kafka to the same tuples."""
    structs = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    least, most = _range(schema["validVersions"], 0)
    return (
        list(range(least, most + 1)),
        [version for version in range(least, most + 1) if version in _span(schema["flexibleVersions"], most)],
        [_expected_field(field, structs, most) for field in schema["fields"]],
    )


def _described_field(field: Field, most: int, least: int = 0) -> Any:
    """Converts a field. A nested field exists in the versions of its struct: `least` is the first of these."""
    last = min(most, field.until)
    kind = ("[]" if field.is_array else "") + field.type.replace("{}", "struct")
    default = field.default or None if isinstance(field.default, int) else None
    is_null = field.default is None and field.type != "uuid"
    return (
        *(
            field.name,
            kind,
            max(least, field.since),
            last,
            field.is_nullable(most),
            field.tag,
            "null" if is_null else default,
        ),
        [_described_field(each, most, field.since) for each in field.fields],
    )


def _expected_field(field: KafkaSchema, structs: dict[str, list[KafkaSchema]], most: int) -> Any:
    name = field["name"][0].lower() + field["name"][1:]
    plain_type = field["type"].removeprefix("[]")
    fields = field.get("fields") or structs.get(plain_type, [])
    shown_type = field["type"].replace(plain_type, "struct") if fields else field["type"]
    versions = _range(field.get("versions") or field["taggedVersions"], most)
    tagged = _span(field.get("taggedVersions", "none"), most)
    nullable = _span(field.get("nullableVersions", "none"), most)
    # A nullable or tagged field is so in all versions that have it: the readers rely on that.
    assert tagged in (range(0), range(versions[0], versions[1] + 1))
    assert nullable in (range(0), range(versions[0], versions[1] + 1))
    default = field.get("default")
    if default is not None and default != "null":
        default = int(default)
    return (
        *(name, shown_type, *versions, bool(nullable), field.get("tag"), default or None),
        [_expected_field(each, structs, most) for each in fields],
    )


def _range(text: str, most: int) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), most
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _span(text: str, most: int) -> range:
    if text == "none":
        return range(0)
    first, last = _range(text, most)
    return range(first, last + 1)
