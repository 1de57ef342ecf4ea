"""DeleteGroups."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.requests import DeleteGroups

decide = Coordinator.delete_groups


def to_request(entity: Any, caller: Caller) -> DeleteGroups:
    return DeleteGroups(group_ids=entity.groups_names)
