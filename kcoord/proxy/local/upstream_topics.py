"""The upstream's topics as the coordinator asks for them: heard of in Metadata answers that pass, and listed by us.

What passes adds to what is known and takes nothing away: it is what one client may see, told by a broker that may be
behind. What is to be deleted is decided by our own lists alone, and slowly, since offsets go with it:

| a topic that we have listed ourselves                                      | is           |
|----------------------------------------------------------------------------|--------------|
| is not in a list, or its name is there with another id                     | missing      |
| is missing twice in a row, and the upstream says that there is none        | deleted      |
| is missing, but we may not see it (any more), or the upstream says nothing | there        |

A topic that offsets were kept for counts as listed: it may have been deleted while no proxy was there to see it, or the
record of their deletion was lost.

A topic that was made anew has its old id here until our next list. What is committed by its name until then carries the
old id, and may be meant for the new topic: all that was committed since the old one was last listed is the new one's.

Pure: `refreshing` asks the upstream.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kcoord.groups.topics import Heir

NO_ID: Final = UUID(int=0)
_REMEMBERED_MS: Final = 3_600_000
"""After its deletion it is known for so long when a topic was there: the deletion of its offsets may be lost."""


class KnownTopic(NamedTuple):
    topic_id: UUID
    partitions: int


class DeletedTopic(NamedTuple):
    topic_id: UUID
    heir: Heir | None  # the topic that has its name now


class MirroredTopics:
    """See groups.topics.Topics. `ask` is called for what is not known, so that it may be known the next time.

    `hidden` is the name of a topic that is not there for groups either, whoever tells of it: the journal's. `found` is
    called with the name and the id of each other topic when it is first heard of.
    """

    def __init__(
        self,
        ask: Callable[[], None] = lambda: None,
        *,
        hidden: str | None = None,
        found: Callable[[str, UUID], None] = lambda name, topic_id: None,
    ) -> None:
        self.ask = ask
        self._found = found
        self._hidden = hidden
        self.losses = 0
        self._by_name: dict[str, KnownTopic] = {}
        self._names: dict[UUID, str] = {}
        self._listed: dict[UUID, str] = {}  # those of our own lists
        self._seen_ms: dict[UUID, int] = {}  # when they were last in one, at least
        self._missing: set[UUID] = set()  # of those, the ones that were not in the last list

    # What the coordinator asks.

    def topic_id(self, name: str) -> UUID | None:
        known = self._by_name.get(name)
        if known is None:
            self.ask()
            return None
        return known.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        name = self._names.get(topic_id)
        if name is None:
            self.ask()
        return name

    def has(self, name: str, topic_id: UUID, partition: int) -> bool:
        known = self._by_name.get(name)
        if known is None or (known.topic_id is not topic_id and known.topic_id != topic_id):
            return False
        return partition < known.partitions

    def partitions_of(self, name: str) -> int:
        known = self._by_name.get(name)
        return 0 if known is None else known.partitions

    # What is told.

    def heard(self, name: str, topic_id: UUID, partitions: int) -> None:
        """A broker has told a client of it. If it contradicts what is known, our own list shall say what is true."""
        if name == self._hidden:
            return
        known = self._by_name.get(name)
        self._missing.discard(topic_id)
        if known is None:
            self._keep(name, KnownTopic(topic_id, partitions))
        elif known.topic_id != topic_id:
            self.ask()
        elif partitions > known.partitions:
            self._by_name[name] = known._replace(partitions=partitions)

    def heard_metadata(self, response: Any) -> None:
        """All that a Metadata response tells of topics. Those before version 10 tell no ids."""
        for topic in response.topics:
            topic_id = getattr(topic, "topic_id", None)
            if topic.name and topic_id and topic_id != NO_ID and topic.partitions:
                self.heard(topic.name, topic_id, len(topic.partitions))

    def listed(self, topics: Mapping[str, KnownTopic], asked_at_ms: int) -> Collection[str]:
        """Our own list. The names of those that are missing for the second time: are they there?"""
        topics = {name: topic for name, topic in topics.items() if name != self._hidden}
        for name, topic in topics.items():
            self._keep(name, topic)
            self._listed[topic.topic_id] = name
            self._seen_ms[topic.topic_id] = asked_at_ms
        self._forget_seen_before(asked_at_ms - _REMEMBERED_MS)
        there = {topic.topic_id for topic in topics.values()}
        missing = self._listed.keys() - there
        twice = {self._listed[topic_id] for topic_id in missing & self._missing}
        self._missing = set(missing)
        return twice

    def expect(self, topics: Iterable[tuple[str, UUID]], now_ms: int) -> None:
        """Names and ids of topics that were there once, before now."""
        for name, topic_id in topics:
            self._listed.setdefault(topic_id, name)
            self._seen_ms.setdefault(topic_id, now_ms)

    @property
    def has_missing(self) -> bool:
        return bool(self._missing)

    def deleted(self, name: str) -> list[DeletedTopic]:
        """The upstream says that those of this name which are missing are no more."""
        gone = [topic_id for topic_id in self._missing if self._listed[topic_id] == name]
        for topic_id in gone:
            self._missing.discard(topic_id)
            del self._listed[topic_id]
            self._names.pop(topic_id, None)
            known = self._by_name.get(name)
            if known is not None and known.topic_id == topic_id:
                del self._by_name[name]
                self.losses += 1
        heir = self._by_name.get(name)
        return [DeletedTopic(each, Heir(heir.topic_id, self._seen_ms[each]) if heir else None) for each in gone]

    def _forget_seen_before(self, since_ms: int) -> None:
        old = [each for each, at in self._seen_ms.items() if at < since_ms and each not in self._listed]
        for topic_id in old:
            del self._seen_ms[topic_id]

    def _keep(self, name: str, topic: KnownTopic) -> None:
        known = self._by_name.get(name)
        if known is not None and known.topic_id == topic.topic_id:
            topic = KnownTopic(known.topic_id, max(known.partitions, topic.partitions))
        elif known is not None:
            self.losses += 1
        if known is None or known.topic_id != topic.topic_id:
            self._found(name, topic.topic_id)
        self._by_name[name] = topic
        self._names[topic.topic_id] = name
