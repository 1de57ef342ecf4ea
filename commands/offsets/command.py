"""The noun `kcoord offsets`: committed offsets of groups, and safe changes of them."""

from typing import Final

import click

from ..lazy import LazyGroup, Verb
from ..options.connection_options import connection_options
from ..output.output import output_options

_verbs: Final = {
    "apply": Verb("offsets.apply", "apply_plan", "Do exactly what a saved plan says, or refuse."),
    "copy": Verb("offsets.copy", "copy_offsets", "Set offsets of groups to those that they have in another cluster."),
    "delete": Verb("offsets.delete", "delete", "Forget offsets of a group."),
    "diff": Verb("offsets.diff", "diff_offsets", "Compare exports, clusters, or one with the other."),
    "export": Verb("offsets.export", "export_offsets", "Write offsets of groups to a file."),
    "import": Verb("offsets.import_", "import_offsets", "Set offsets of groups from a file."),
    "reset": Verb("offsets.reset", "reset", "Move groups to another place: an offset, a time, a distance."),
    "undo": Verb("offsets.undo", "undo", "Take back a change of offsets."),
}


@click.group(cls=LazyGroup, verbs=_verbs)
@connection_options
@output_options
def offsets() -> None:
    """Offsets that groups have committed. Nothing is changed without --execute; every change can be taken back.

    \b
    kcoord offsets reset payments --topic orders --to @-1h
    kcoord offsets reset payments --topic orders --to @-1h --execute
    kcoord offsets undo kcoord-undo-payments-20261116T100000Z.json --execute
    kcoord offsets export --all-groups -f offsets.jsonl
    """
