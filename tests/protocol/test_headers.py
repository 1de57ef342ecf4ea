import pytest

from kcoord.api_keys import ApiKey
from kcoord.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_request_start,
    read_response_header,
    write_request_header,
    write_response_header,
)
from kcoord.protocol.validate import CorruptMessage

_header = RequestHeader(api_key=ApiKey.METADATA, api_version=12, correlation_id=-7, client_id="tester")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client_id", [None, "", "tester", "é" * 100])
def test_a_request_header_comes_back_as_it_was_written(version: int, client_id: str | None) -> None:
    header = RequestHeader(api_key=ApiKey.METADATA, api_version=12, correlation_id=9, client_id=client_id)
    encoded = write_request_header(header, version)
    assert read_request_header(encoded + b"body", version) == (header, len(encoded))


def test_the_oldest_request_header_has_no_client_id() -> None:
    encoded = write_request_header(_header, 0)
    header, position = read_request_header(encoded, 0)
    assert (header.client_id, position) == (None, 8)


def test_tagged_fields_of_a_request_header_are_stepped_over() -> None:
    encoded = write_request_header(_header, 2)[:-1] + b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"
    assert read_request_header(encoded + b"body", 2) == (_header, len(encoded))


@pytest.mark.parametrize("length", range(15))
def test_a_header_that_ends_too_early_is_bad(length: int) -> None:
    encoded = write_request_header(_header, 2)
    with pytest.raises(CorruptMessage):
        read_request_header(encoded[:length], 2)


def test_a_client_id_longer_than_its_frame_is_bad() -> None:
    with pytest.raises(CorruptMessage, match="client id"):
        read_request_header(write_request_header(_header, 1)[:8] + b"\x7f\xff" + b"abc", 1)


def test_a_client_id_that_is_not_utf_8_is_read_all_the_same() -> None:
    header, _ = read_request_header(write_request_header(_header, 1)[:8] + b"\x00\x02\xff\xfe", 1)
    assert header.client_id == "\ufffd\ufffd"


def test_a_header_tag_longer_than_the_frame_is_bad() -> None:
    with pytest.raises(CorruptMessage):
        read_request_header(write_request_header(_header, 2)[:-1] + b"\x01\x00\x7f", 2)


def test_key_and_version_can_be_read_of_a_version_that_is_not_known() -> None:
    start = read_request_start(write_request_header(_header, 2))
    assert (start.api_key, start.api_version, start.correlation_id) == (3, 12, -7)


@pytest.mark.parametrize("version", [0, 1])
def test_a_response_header_comes_back_as_it_was_written(version: int) -> None:
    encoded = write_response_header(77, version)
    assert read_response_header(encoded + b"body", version) == (77, len(encoded))
