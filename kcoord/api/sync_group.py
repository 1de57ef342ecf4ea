"""SyncGroup: from version 5 on the member names the protocol (KIP-559)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import Sync

decide = Coordinator.sync
prevalidate = Coordinator.prevalidate_sync
VARIABLE_FIELD = "generation_id"  # the field that differs when a member repeats its request
_GENERATION = Sync._fields.index("generation")
PER_MEMBER_FIELD = "assignment"  # the field that differs between the responses to the members of a group


def to_request(entity: Any, caller: Caller) -> Sync:
    version = entity.__version__
    return Sync(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id if version >= 3 else None,
        generation=entity.generation_id,
        protocol_type=entity.protocol_type if version >= 5 else None,
        protocol=entity.protocol_name if version >= 5 else None,
        lacks_protocol=version >= 5 and None in (entity.protocol_type, entity.protocol_name),
        plan={assignment.member_id: assignment.assignment for assignment in entity.assignments},
    )


def with_fields(request: Sync, generation: tuple[int]) -> Sync:
    """Returns the sync with another generation."""
    return Sync._make((*request[:_GENERATION], *generation, *request[_GENERATION + 1 :]))
