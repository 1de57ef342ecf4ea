"""Asks the assignors of kafka-python: a case as a line of JSON in, a line with their plan out, as go_balancers/main.go.

It is a program of its own because kafka-python's modules warn when they are imported.
"""

import json
import logging
import sys
from base64 import b64decode
from types import SimpleNamespace
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

ASSIGNORS: Final = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Cluster:
    """What an assignor asks of kafka-python's ClusterMetadata."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def topics(self) -> set[str]:
        return set(self._counts)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


def plan(asked: dict[str, Any]) -> dict[str, dict[str, list[int]]]:
    members = [
        SimpleNamespace(
            member_id=each["id"],
            group_instance_id=each["instance"],
            metadata=ConsumerProtocolSubscription.decode(b64decode(each["subscription"])),
        )
        for each in asked["members"]
    ]
    subscribed = {topic for each in members for topic in each.metadata.topics}
    known = {topic: count for topic, count in asked["topics"].items() if count and topic in subscribed}
    made: dict[str, dict[str, list[int]]] = {}
    for member_id, assignment in ASSIGNORS[asked["strategy"]]().assign(Cluster(known), members).items():
        made[member_id] = {}
        for partition in assignment.partitions():
            made[member_id].setdefault(partition.topic, []).append(partition.partition)
    return made


def make_consumer(strategies: list[str]) -> None:
    """Makes a consumer with a list of strategies; it is asked for no connection."""
    KafkaConsumer(
        group_id="g",
        bootstrap_servers="127.0.0.1:1",
        api_version=(2, 6),
        partition_assignment_strategy=[ASSIGNORS[each] for each in strategies],
    )


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        if asked["library"] == "lists":
            make_consumer(asked["strategy"].split(","))
            return {"plans": []}
        return {"plans": [plan(asked)]}
    except Exception as raised:
        name = type(raised).__name__
        return {"error": str(raised) if str(raised).startswith(name) else f"{name}: {raised}"}


if __name__ == "__main__":
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
