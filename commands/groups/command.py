"""The noun `kcoord groups`: the groups of a live cluster."""

from typing import Final

import click

from ..lazy import LazyGroup, Verb
from ..options.connection_options import connection_options
from ..output.output import output_options

_verbs: Final = {
    "delete": Verb("groups.delete", "delete_groups", "Delete groups that have no members."),
    "describe": Verb("groups.describe", "describe", "State, members, offsets and lag of groups."),
    "doctor": Verb("groups.doctor", "doctor", "What is wrong with groups, and what to do about it."),
    "lag": Verb("groups.lag", "lag", "How far groups are behind, in records and in time."),
    "list": Verb("groups.list", "list_groups", "The groups of a cluster."),
    "remove-member": Verb("groups.remove_member", "remove_member", "Remove members from a group."),
    "watch": Verb("groups.watch.watch", "watch", "Groups as they change: state, owners, lag and its speed."),
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
