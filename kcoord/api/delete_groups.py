"""DeleteGroups."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import DeleteGroups


def to_request(entity: Any, caller: Caller) -> DeleteGroups:
    """Converts kio's DeleteGroups request of any version to the version-free one."""
    return DeleteGroups(group_ids=entity.groups_names)


API = group_api(to_request=to_request, decide=Coordinator.delete_groups)
