"""Extracts the names in a Produce request, so that a search for a name skips megabytes of records. Pure.

header: key, version, correlation id, client id, tags    transactional id, acks, timeout
topics: name (before version 13) or id, partitions: index, records, tags; tags
"""

from typing import Final

from kcoord.protocol.varint import BadVarint, read_uvarint

_CLIENT_ID: Final = 8  # its position, behind key, version and correlation id
_FIRST_FLEXIBLE: Final = 9
_FIRST_BY_ID: Final = 13
_ID_SIZE: Final = 16
_ACKS_AND_TIMEOUT: Final = 6  # acks and timeout
_INDEX: Final = 4


def names_in_produce(frame: bytes, api_version: int) -> bytes:
    """Returns all bytes of a Produce request frame that can name a topic or a transactional id, concatenated.

    Returns the whole frame for older versions, for frames with tagged fields, and for malformed ones.
    """
    if api_version < _FIRST_FLEXIBLE:
        return frame
    try:
        return _names(frame, is_by_id=api_version >= _FIRST_BY_ID)
    except (IndexError, BadVarint):
        return frame


def _names(frame: bytes, *, is_by_id: bool) -> bytes:
    client_id = int.from_bytes(frame[_CLIENT_ID : _CLIENT_ID + 2], signed=True)
    position = _CLIENT_ID + 2 + max(client_id, 0)
    transaction, position = read_uvarint(frame, _skip_no_tags(frame, position))
    position += max(transaction - 1, 0) + _ACKS_AND_TIMEOUT
    topics, position = read_uvarint(frame, position)
    names = [frame[:position]]
    for _ in range(topics - 1):
        start = position
        size, position = (_ID_SIZE + 1, position) if is_by_id else read_uvarint(frame, position)
        position += size - 1
        names.append(frame[start:position])
        position = _skip_partitions(frame, position)
    if _skip_no_tags(frame, position) != len(frame):
        raise IndexError("there is more, or less")
    return b"".join(names)


def _skip_partitions(frame: bytes, position: int) -> int:
    partitions, position = read_uvarint(frame, position)
    for _ in range(partitions - 1):
        records, position = read_uvarint(frame, position + _INDEX)
        position = _skip_no_tags(frame, position + max(records - 1, 0))
    return _skip_no_tags(frame, position)


def _skip_no_tags(frame: bytes, position: int) -> int:
    if frame[position]:
        raise IndexError("tagged fields: they may be anything")
    return position + 1
