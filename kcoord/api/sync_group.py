"""SyncGroup: from version 5 on the member names the protocol (KIP-559)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import Sync

_GENERATION = Sync._fields.index("generation")


def to_request(entity: Any, caller: Caller) -> Sync:
    """Converts kio's SyncGroup request of any version to the version-free one."""
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
    """Returns the SyncGroup request with another generation."""
    return Sync._make((*request[:_GENERATION], *generation, *request[_GENERATION + 1 :]))


API = group_api(
    to_request=to_request,
    decide=Coordinator.sync,
    prevalidate=Coordinator.prevalidate_sync,
    variable_field="generation_id",
    with_fields=with_fields,
    per_member_field="assignment",
)
