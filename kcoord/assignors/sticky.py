"""A sticky assignor: as even as the subscriptions allow, and each partition stays with its owner if possible.

Every partition whose owner is still subscribed stays there; the others go to the member with the fewest. Then
partitions move along paths: a member that has at least two more than another gives one away, if need be through members
in between that can take the one topic and give the other. When no such path is left, no plan is more even: this is the
optimal semi-matching of Harvey, Ladner, Lovász and Tamir (2003), whose proof is that such a path exists otherwise.
Kafka's sticky assignor moves partitions directly only, and may end less even if subscriptions differ.
"""

from collections import deque
from collections.abc import Collection
from typing import Final, TypeAlias

from kcoord.assignors.plan import Partition, PartitionCounts, Plan, Subscriber

_Move: TypeAlias = tuple[str, str, str]  # a giver, a topic, a taker

_ENOUGH: Final = 2  # with such a difference, moving one partition makes two members more even


def assign_sticky(subscribers: Collection[Subscriber], counts: PartitionCounts) -> Plan:
    """Returns the assignment of each member by a sticky assignor: as even as the subscriptions allow, and each
    partition stays with its owner if possible.
    """
    shares = _Shares(subscribers)
    for each in subscribers:
        for topic, index in sorted(each.owned):
            if topic in each.topics and index < counts.get(topic, 0):
                shares.claim((topic, index), each.member_id)
    for topic in sorted(shares.wanting, key=lambda name: (len(shares.wanting[name]), name)):
        for index in range(counts.get(topic, 0)):
            shares.assign_to_least_loaded((topic, index))
    shares.balance()
    return shares.plan()


class _Shares:
    """The assignment so far: by member, then by topic, so that paths are searched over topics and not over
    partitions."""

    def __init__(self, subscribers: Collection[Subscriber]) -> None:
        self.wanting: dict[str, list[str]] = {}
        for each in sorted(subscribers, key=lambda subscriber: subscriber.member_id):
            for topic in set(each.topics):
                self.wanting.setdefault(topic, []).append(each.member_id)
        self._held: dict[str, dict[str, set[int]]] = {each.member_id: {} for each in subscribers}
        self._load: dict[str, int] = dict.fromkeys(self._held, 0)
        self._assigned: set[Partition] = set()

    def claim(self, partition: Partition, member_id: str) -> None:
        """Assigns the partition to the first member that claims it."""
        if partition not in self._assigned:
            self._assign(partition, member_id)

    def assign_to_least_loaded(self, partition: Partition) -> None:
        if partition not in self._assigned:
            self._assign(partition, min(self.wanting[partition[0]], key=lambda member: (self._load[member], member)))

    def balance(self) -> None:
        while path := self._path():
            for giver, topic, taker in path:
                self._move(giver, topic, taker)

    def plan(self) -> Plan:
        return {
            member: tuple((topic, index) for topic in sorted(held) for index in sorted(held[topic]))
            for member, held in self._held.items()
        }

    def _path(self) -> list[_Move]:
        """Returns a path from the most loaded member that can give to the least loaded one that it reaches, so that no
        partition moves in vain."""
        least = min(self._load.values(), default=0)
        for member in sorted(self._load, key=self._load.__getitem__, reverse=True):
            if self._load[member] - least < _ENOUGH:
                break
            if path := self._path_from(member, least):
                return path
        return []

    def _path_from(self, richest: str, least: int) -> list[_Move]:
        """Returns the moves, the last one first: a member in between gives before it takes. Empty if the member can
        give to nobody."""
        reached_by = self._reachable(richest, least)
        poorest = min(reached_by, key=self._load.__getitem__, default=richest)  # the nearest of equals
        if self._load[richest] - self._load[poorest] < _ENOUGH:
            return []
        path = [reached_by[poorest]]
        while (giver := path[-1][0]) != richest:
            path.append(reached_by[giver])
        return path

    def _reachable(self, richest: str, least: int) -> dict[str, _Move]:
        """Returns the last move of the path to each reachable member, the nearest first. It stops at a member with the
        least load, for none has less."""
        reached_by: dict[str, _Move] = {}
        seen_topics: set[str] = set()
        waiting = deque([richest])
        while waiting:
            giver = waiting.popleft()
            for topic in sorted(self._held[giver].keys() - seen_topics):
                seen_topics.add(topic)
                for taker in self.wanting[topic]:
                    if taker == richest or taker in reached_by:
                        continue
                    reached_by[taker] = giver, topic, taker
                    if self._load[taker] == least:
                        return reached_by
                    waiting.append(taker)
        return reached_by

    def _assign(self, partition: Partition, member_id: str) -> None:
        topic, index = partition
        self._held[member_id].setdefault(topic, set()).add(index)
        self._load[member_id] += 1
        self._assigned.add(partition)

    def _move(self, giver: str, topic: str, taker: str) -> None:
        index = max(self._held[giver][topic])
        self._held[giver][topic].remove(index)
        if not self._held[giver][topic]:
            del self._held[giver][topic]
        self._held[taker].setdefault(topic, set()).add(index)
        self._load[giver] -= 1
        self._load[taker] += 1
