"""The upstream's topics for the coordinator, from observed Metadata answers and from the proxy's own listings. Pure.

Observed answers add topics and never remove any: they show what one client may see, from a broker that may be behind.
Only the proxy's own listings decide that a topic is deleted, and with caution, since its offsets are deleted with it:

| a topic that the proxy has listed                                           | counts as |
|-----------------------------------------------------------------------------|-----------|
| is not in a listing, or its name has another id                             | missing   |
| is missing from two listings in a row, and the upstream has no such topic   | deleted   |
| is missing, but the proxy may not see it, or the upstream does not answer   | existing  |

A topic for which offsets are stored counts as listed: it may have been deleted while no proxy ran, or the record that
deletes its offsets was lost.

A recreated topic has its old id here until the next listing. Commits by name until then carry the old id, although they
may be meant for the new topic. So all commits since the old topic was last listed are attributed to the new one.

`topic_refresher` queries the upstream.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kcoord.groups.topics import RecreatedTopic

NO_ID: Final = UUID(int=0)
_REMEMBERED_MS: Final = 3_600_000
"""For so long after its deletion it is remembered when a topic last existed: the record that deletes its offsets may be
lost."""


class KnownTopic(NamedTuple):
    """The id and the number of partitions of an upstream topic."""

    topic_id: UUID
    partitions: int


class DeletedTopic(NamedTuple):
    """An upstream topic that was deleted: its id, and the topic that was recreated under its name, if any."""

    topic_id: UUID
    recreated: RecreatedTopic | None  # the topic that has the name now


class MirroredTopics:
    """The upstream's topics, as group coordinators see them (groups.topics.Topics). `request_refresh` is called for
    unknown topics, so that they may be known the next time.

    `hidden` is the name of a topic that groups never see, whatever names it: the journal's. `found` is called with the
    name and the id of each other topic when it is first seen.
    """

    def __init__(
        self,
        request_refresh: Callable[[], None] = lambda: None,
        *,
        hidden: str | None = None,
        found: Callable[[str, UUID], None] = lambda name, topic_id: None,
    ) -> None:
        self.request_refresh = request_refresh
        self._found = found
        self._hidden = hidden
        self.deletion_epoch = 0
        self._by_name: dict[str, KnownTopic] = {}
        self._names: dict[UUID, str] = {}
        self._listed: dict[UUID, str] = {}  # names by id, of topics in the proxy's own listings
        self._seen_ms: dict[UUID, int] = {}  # when each was last known to exist
        self._missing: set[UUID] = set()  # listed topics that were not in the last listing

    # groups.topics.Topics

    def topic_id(self, name: str) -> UUID | None:
        """Returns the topic's id, or None if it is not known, and then requests a refresh."""
        known = self._by_name.get(name)
        if known is None:
            self.request_refresh()
            return None
        return known.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """Returns the name of the topic with this id, or None if it is not known, and then requests a refresh."""
        name = self._names.get(topic_id)
        if name is None:
            self.request_refresh()
        return name

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        """Returns whether the partition is known in a topic with this name and this id."""
        known = self._by_name.get(name)
        if known is None or (known.topic_id is not topic_id and known.topic_id != topic_id):
            return False
        return partition < known.partitions

    def partitions_of(self, name: str) -> int:
        """Returns how many partitions the topic has; 0 if it is not known."""
        known = self._by_name.get(name)
        return 0 if known is None else known.partitions

    # Updates

    def on_topic(self, name: str, topic_id: UUID, partitions: int) -> None:
        """Adds a topic of an observed response. If it contradicts a known topic, a refresh is requested instead."""
        if name == self._hidden:
            return
        known = self._by_name.get(name)
        self._missing.discard(topic_id)
        if known is None:
            self._store(name, KnownTopic(topic_id, partitions))
        elif known.topic_id != topic_id:
            self.request_refresh()
        elif partitions > known.partitions:
            self._by_name[name] = known._replace(partitions=partitions)

    def on_metadata(self, response: Any) -> None:
        """Adds all topics of an observed Metadata response; those before version 10 have no topic ids, and
        are ignored.
        """
        for topic in response.topics:
            topic_id = getattr(topic, "topic_id", None)
            if topic.name and topic_id and topic_id != NO_ID and topic.partitions:
                self.on_topic(topic.name, topic_id, len(topic.partitions))

    def on_listed(self, topics: Mapping[str, KnownTopic], asked_at_ms: int) -> Collection[str]:
        """Applies the proxy's own list of all topics, requested at `asked_at_ms`; returns the names missing for the
        second time, which are to be checked.
        """
        topics = {name: topic for name, topic in topics.items() if name != self._hidden}
        for name, topic in topics.items():
            self._store(name, topic)
            self._listed[topic.topic_id] = name
            self._seen_ms[topic.topic_id] = asked_at_ms
        self._forget_seen_before(asked_at_ms - _REMEMBERED_MS)
        present = {topic.topic_id for topic in topics.values()}
        missing = self._listed.keys() - present
        twice = {self._listed[topic_id] for topic_id in missing & self._missing}
        self._missing = set(missing)
        return twice

    def expect(self, topics: Iterable[tuple[str, UUID]], now_ms: int) -> None:
        """Adds names and ids of topics with committed offsets, as if they had been listed: they may have been deleted
        while no proxy ran.
        """
        for name, topic_id in topics:
            self._listed.setdefault(topic_id, name)
            self._seen_ms.setdefault(topic_id, now_ms)

    @property
    def has_missing(self) -> bool:
        """Whether a listed topic was not in the last list."""
        return bool(self._missing)

    def on_deleted(self, name: str) -> list[DeletedTopic]:
        """Removes the missing topics of this name, after the upstream has confirmed that they do not exist."""
        deleted = [topic_id for topic_id in self._missing if self._listed[topic_id] == name]
        for topic_id in deleted:
            self._missing.discard(topic_id)
            del self._listed[topic_id]
            self._names.pop(topic_id, None)
            known = self._by_name.get(name)
            if known is not None and known.topic_id == topic_id:
                del self._by_name[name]
                self.deletion_epoch += 1
        recreated = self._by_name.get(name)
        return [
            DeletedTopic(each, RecreatedTopic(recreated.topic_id, self._seen_ms[each]) if recreated else None)
            for each in deleted
        ]

    def _forget_seen_before(self, since_ms: int) -> None:
        old = [each for each, at in self._seen_ms.items() if at < since_ms and each not in self._listed]
        for topic_id in old:
            del self._seen_ms[topic_id]

    def _store(self, name: str, topic: KnownTopic) -> None:
        known = self._by_name.get(name)
        if known is not None and known.topic_id == topic.topic_id:
            topic = KnownTopic(known.topic_id, max(known.partitions, topic.partitions))
        elif known is not None:
            self.deletion_epoch += 1
        if known is None or known.topic_id != topic.topic_id:
            self._found(name, topic.topic_id)
        self._by_name[name] = topic
        self._names[topic.topic_id] = name
