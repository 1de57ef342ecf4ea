"""Selections of partitions: `orders`, `orders:0,1-3`, or all that a group has committed for."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kcoord.admin.formatting import first_few
from kcoord.admin.model import Topic, TopicPartition
from kcoord.exceptions import InvalidInput

_MOST_PARTITIONS = 1_000_000  # in one selection: "orders:0-99999999999" is a typing error, and would fill the memory


class BadSelection(InvalidInput, ValueError):
    """An error: a text such as `orders:0,1-3` names no partitions, or partitions that do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Partitions of a topic that the user has named; None selects all of them."""

    topic: str
    partitions: tuple[int, ...] | None = None


def parse_selection(text: str) -> Selection:
    """Parses a selection of partitions, `orders` or `orders:0,1-3`. The name of a topic has no colon. Raises
    BadSelection."""
    topic, colon, listed = text.partition(":")
    if not topic:
        raise BadSelection(f"{text!r} names no topic")
    if not colon:
        return Selection(topic=topic)
    numbers: set[int] = set()
    for part in listed.split(","):
        numbers.update(_numbers(part, text))
    return Selection(topic=topic, partitions=tuple(sorted(numbers)))


def _numbers(part: str, text: str) -> range:
    found = re.fullmatch(r"\s*([0-9]{1,10})(?:\s*-\s*([0-9]{1,10}))?\s*", part)
    if found is None:
        raise BadSelection(f"{text!r}: {part!r} is not a partition or a range of them: write TOPIC:0,2,4-7")
    first = int(found[1])
    last = int(found[2]) if found[2] else first
    if last < first:
        raise BadSelection(f"{text!r}: the range {part.strip()} ends before it begins")
    if last - first >= _MOST_PARTITIONS:
        raise BadSelection(f"{text!r}: the range {part.strip()} has more partitions than any topic")
    return range(first, last + 1)


def selected(selections: Iterable[Selection], topics: Mapping[str, Topic]) -> tuple[TopicPartition, ...]:
    """Returns the partitions of the cluster that are selected, each once, sorted. Raises BadSelection with the names of
    all that do not exist."""
    found: set[TopicPartition] = set()
    missing: list[str] = []
    for selection in selections:
        topic = topics.get(selection.topic)
        if topic is None:
            missing.append(f"topic {selection.topic!r}")
        elif selection.partitions is None:
            found.update(topic.partitions)
        else:
            named = {TopicPartition(topic.name, partition) for partition in selection.partitions}
            missing.extend(f"partition {tp}" for tp in sorted(named.difference(topic.partitions)))
            found.update(named)
    if missing:
        raise BadSelection(f"this cluster has no {', no '.join(first_few(missing))}")
    return tuple(sorted(found))


def selects(selections: Collection[Selection], tp: TopicPartition) -> bool:
    """Whether a partition is selected, judged by names and numbers alone, whether it exists or not."""
    return any(
        selection.topic == tp.topic and (selection.partitions is None or tp.partition in selection.partitions)
        for selection in selections
    )
