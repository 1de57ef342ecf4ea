"""Control records, which brokers write into logs. In the log of a topic's partition each of them ends a transaction."""

from enum import IntEnum
from struct import Struct
from typing import Final

_KEY: Final = Struct(">hh")  # version, type
_END_OF_TRANSACTION: Final = Struct(">hi")  # EndTransactionMarker: version, coordinator epoch


class ControlRecordType(IntEnum):
    """Kafka's types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


TRANSACTION_ENDS: Final = frozenset({ControlRecordType.ABORT, ControlRecordType.COMMIT})


def read_control_type(key: bytes | None) -> int | None:
    """Returns the type in a control record's key, which may be unknown here; None if the key is too short."""
    return None if key is None or len(key) < _KEY.size else int(_KEY.unpack_from(key)[1])


def read_coordinator_epoch(value: bytes | None) -> int | None:
    """Returns the epoch of the coordinator that ended a transaction; None if the value is too short."""
    if value is None or len(value) < _END_OF_TRANSACTION.size:
        return None
    return int(_END_OF_TRANSACTION.unpack_from(value)[1])
