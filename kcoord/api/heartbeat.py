"""Heartbeat: with an instance id from 3 on (KIP-345)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import Heartbeat


def to_request(entity: Any, caller: Caller) -> Heartbeat:
    """Converts kio's Heartbeat request of any version to the version-free one."""
    return Heartbeat(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id if entity.__version__ >= 3 else None,
        generation=entity.generation_id,
    )


API = group_api(to_request=to_request, decide=Coordinator.heartbeat, prevalidate=Coordinator.prevalidate_heartbeat)
