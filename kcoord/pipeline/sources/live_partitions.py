"""The input partition of a live cluster: what one task reads; and ranges as text, for an option of the source."""

import json
from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from kcoord.pipeline.decoding.fetched import LogRange


class RangesPartition(InputPartition):
    """Spark's InputPartition for a live cluster: the ranges of offsets, of different partitions, that one Spark task
    reads."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        self.ranges = ranges


def ranges_text(ranges: Sequence[LogRange]) -> str:
    """Serializes ranges of offsets for the option `ranges` of the data source."""
    return json.dumps([[each.topic, each.partition, each.start, each.end] for each in ranges])


def ranges_of(text: str) -> list[LogRange]:
    """Parses the ranges of offsets that `ranges_text` has serialized."""
    return [
        LogRange(topic=topic, partition=partition, start=start, end=end)
        for topic, partition, start, end in json.loads(text)
    ]
