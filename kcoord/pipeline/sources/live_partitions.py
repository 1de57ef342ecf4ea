"""The input partition of a live cluster: what one task reads; and ranges as text, for an option of the source."""

import json
from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from kcoord.pipeline.decoding.fetched import LogRange


class RangesPartition(InputPartition):
    """Ranges of different partitions, which one task reads."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        self.ranges = ranges


def ranges_text(ranges: Sequence[LogRange]) -> str:
    """Serializes ranges for the option `ranges`."""
    return json.dumps([[each.topic, each.partition, each.start, each.end] for each in ranges])


def ranges_of(text: str) -> list[LogRange]:
    """Reads what `ranges_text` wrote."""
    return [
        LogRange(topic=topic, partition=partition, start=start, end=end)
        for topic, partition, start, end in json.loads(text)
    ]
