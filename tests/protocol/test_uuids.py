"""Kafka's text of a UUID."""

from uuid import UUID

import pytest

from kcoord.protocol.uuids import format_uuid, parse_uuid

METADATA_TOPIC = UUID(int=1)  # Uuid.METADATA_TOPIC_ID
SIGNS = UUID(bytes=b"\xfb\xff" * 8)


@pytest.mark.parametrize(
    ("uuid", "text"), [(METADATA_TOPIC, "AAAAAAAAAAAAAAAAAAAAAQ"), (SIGNS, "-__7__v_-__7__v_-__7_w")]
)
def test_a_uuid_is_written_and_parsed_as_kafka_does(uuid: UUID, text: str) -> None:
    assert format_uuid(uuid.bytes) == text
    assert parse_uuid(text) == uuid


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", "A"])
def test_a_text_of_another_size_is_no_uuid(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - base64 and UUID have texts of their own
        parse_uuid(text)
