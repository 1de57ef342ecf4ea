"""Parses options that say how many partitions a topic has."""

from typing import Final

import click

MAX_PARTITIONS: Final = 10_000_000
"""More of one topic are taken for a mistake: no cluster has so many."""


def parse_topic_count(text: str, mark: str) -> tuple[str, int]:
    """Parses TOPIC:PARTITIONS, or with another mark between both. Raises click.BadParameter."""
    name, _, count = text.rpartition(mark)
    if not name or not count.isascii() or not count.isdecimal() or not 0 < int(count[:9]) <= MAX_PARTITIONS:
        raise click.BadParameter(
            f"{text!r} is not TOPIC{mark}PARTITIONS, such as orders{mark}12, with 1 to {MAX_PARTITIONS:,} partitions"
        )
    return name, int(count)
