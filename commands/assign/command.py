"""The noun `kcoord assign`: which member gets which partitions, by each of Kafka's assignors."""

from typing import Final

import click

from ..lazy import LazyGroup, Verb
from ..options.connection_options import connection_options
from ..output.output import output_options

_verbs: Final = {
    "compare": Verb("assign.compare", "compare", "What each strategy gives: who gets what, what moves, what pauses."),
    "replay": Verb("assign.replay", "replay", "What each strategy would have cost groups over their history."),
}


@click.group(cls=LazyGroup, verbs=_verbs)
@connection_options
@output_options
def assign() -> None:
    """Which member of a group gets which partitions: range, round robin, sticky, cooperative sticky, and the uniform
    and range assignors of KIP-848, exactly as Kafka plans.

    \b
    kcoord assign compare --topic orders:12 --topic payments:6 --members 4
    kcoord assign compare --group payments --add-members 2 -b broker:9092
    kcoord assign replay tables --group payments
    kcoord assign replay -b broker:9092 --group payments --session-timeout 2m
    """
