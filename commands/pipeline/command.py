"""The noun `kcoord pipeline`: the history of groups as tables."""

from typing import Final

import click

from ..lazy import LazyGroup, Verb
from ..options.connection_options import connection_options
from ..output.output import output_options

_verbs: Final = {
    "decode": Verb("pipeline.decode", "decode", "Make tables of __consumer_offsets, as Parquet."),
    "lag": Verb("pipeline.lag", "lag", "How far groups were behind over time, and where nothing moves."),
    "rebalances": Verb("pipeline.rebalances", "rebalances", "The most restless groups, why, and the time it cost."),
    "report": Verb("pipeline.report", "report", "All of it as one HTML page with pictures."),
}


@click.group(cls=LazyGroup, verbs=_verbs)
@connection_options
@output_options
def pipeline() -> None:
    """The history of groups as tables, on Spark: embedded, or a cluster's by --master.

    A folder of log segments is read, a broker's or that of kcoord serve, or a live cluster (-b).

    \b
    kcoord pipeline report /copies/kafka-logs --out report.html
    kcoord pipeline decode /copies/kafka-logs --out tables
    kcoord pipeline decode -b broker:9092 --out tables --follow
    kcoord pipeline rebalances tables --since @-1d
    kcoord pipeline lag tables --group payments
    """
