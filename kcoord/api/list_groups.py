"""ListGroups: filtered by state from version 4 on (KIP-518), by type from 5 on (KIP-848)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import ListGroups


def to_request(entity: Any, caller: Caller) -> ListGroups:
    """Converts kio's ListGroups request of any version to the version-free one."""
    return ListGroups(states=getattr(entity, "states_filter", ()), types=getattr(entity, "types_filter", ()))


API = group_api(to_request=to_request, decide=Coordinator.list_groups)
