"""`kcoord groups`: the groups of a live cluster."""

from typing import Final

import click

from .connection_options import connection_options
from .lazy import LazyGroup, Verb
from .output import output_options

_verbs: Final = {
    "delete": Verb("groups_delete", "delete_groups", "Delete groups that have no members."),
    "describe": Verb("groups_describe", "describe", "State, members, offsets and lag of groups."),
    "doctor": Verb("groups_doctor", "doctor", "What is wrong with groups, and what to do about it."),
    "lag": Verb("groups_lag", "lag", "How far groups are behind, in records and in time."),
    "list": Verb("groups_list", "list_groups", "The groups of a cluster."),
    "remove-member": Verb("groups_remove_member", "remove_member", "Remove members from a group."),
    "watch": Verb("groups_watch", "watch", "Groups as they change: state, owners, lag and its speed."),
}


@click.group(cls=LazyGroup, verbs=_verbs)
@connection_options
@output_options
def groups() -> None:
    """Groups of a live cluster. Reading never joins a group; what changes something shows its plan first.

    \b
    kcoord groups list -b localhost:9092
    kcoord groups describe payments
    kcoord groups lag --all-groups --fail-above 10000
    """
