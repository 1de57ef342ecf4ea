"""What one task reads of a live cluster; and ranges as text, for an option of the source."""

import json
from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition

from kcoord.pipeline.decoding.fetched import LogRange


class RangesPartition(InputPartition):
    """Ranges of different partitions."""

    def __init__(self, ranges: tuple[LogRange, ...]) -> None:
        self.ranges = ranges


def ranges_text(ranges: Sequence[LogRange]) -> str:
    return json.dumps([[each.topic, each.partition, each.start, each.end] for each in ranges])


def ranges_of(text: str) -> list[LogRange]:
    return [
        LogRange(topic=topic, partition=partition, start=start, end=end)
        for topic, partition, start, end in json.loads(text)
    ]
