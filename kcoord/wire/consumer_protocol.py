"""What consumers put into the opaque bytes of a group of protocol type "consumer": assignments.

Every version begins as version 0 does, so that a newer one than we know is read as the newest that we do.
"""

from collections.abc import Mapping
from struct import Struct, error
from typing import Any, Final

from kio.schema.consumer_protocol_assignment.v3.data import ConsumerProtocolAssignment

from kcoord.wire.check import BadBody
from kcoord.wire.codec import MAX_REQUEST_ELEMENTS, checked_reader

_VERSION: Final = Struct(">h")

_read: Final = checked_reader(ConsumerProtocolAssignment, MAX_REQUEST_ELEMENTS)


def read_assignment(assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """The partitions by topic; none of an assignment of no bytes. Raises BadBody if it is not a consumer's."""
    if not assignment:
        return {}
    try:
        _VERSION.unpack_from(assignment)
    except error:
        raise BadBody("an assignment too short for its version") from None
    entity: Any = _read(assignment, _VERSION.size)
    partitions: dict[str, tuple[int, ...]] = {}
    for line in entity.assigned_partitions:
        partitions[line.topic] = (*partitions.get(line.topic, ()), *line.partitions)
    return partitions
