"""Records of `__consumer_offsets` as facts of groups, as `encoding` writes them and as any Kafka since 2.0 did.

| a record                                 | becomes                                                                |
|------------------------------------------|------------------------------------------------------------------------|
| an offset, of any version                | OffsetsStored; adjacent ones of one commit become one fact             |
| a group, of any version                  | GroupStored                                                            |
| of a consumer, share or streams group    | ForeignGroupRecord                                                     |
| without a value                          | the deletion of what its key names                                     |
| of a transaction                         | its fact, once the transaction is committed; nothing if it is aborted  |
| a value that cannot be read              | Unreadable: its group must not be changed                              |
| of an unknown type, or with a bad key    | nothing; it is counted                                                 |

Runs of offsets in the common form take a fast path: `offset_runs`.
"""

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Final, NamedTuple
from uuid import UUID

from kcoord.groups.records import (
    ForeignGroupPart,
    ForeignGroupRecord,
    ForeignGroupTombstone,
    GroupDeleted,
    GroupKind,
    GroupStored,
    OffsetDeleted,
    OffsetsStored,
    Record,
    StoredMember,
)
from kcoord.offsets_log import record_schemas
from kcoord.offsets_log.offset_runs import OffsetRuns
from kcoord.offsets_log.record_codec import UnreadableRecord, Values, read_key, read_value
from kcoord.protocol.records.batch import Batch
from kcoord.protocol.records.control_records import TRANSACTION_ENDS, ControlRecordType, read_control_type
from kcoord.protocol.records.record import ensure_filled, plain_records, read_key_value

_NO_ID: Final = UUID(int=0)
_STABLE: Final = 0  # MemberState.STABLE

_FOREIGN_RECORDS: Final = {
    **dict.fromkeys((4, 7, 16), (GroupKind.CONSUMER, ForeignGroupPart.OTHER)),
    **dict.fromkeys((13, 15), (GroupKind.SHARE, ForeignGroupPart.OTHER)),
    **dict.fromkeys((21, 23), (GroupKind.STREAMS, ForeignGroupPart.OTHER)),
    3: (GroupKind.CONSUMER, ForeignGroupPart.GROUP),
    5: (GroupKind.CONSUMER, ForeignGroupPart.MEMBER),
    6: (GroupKind.CONSUMER, ForeignGroupPart.TARGET),
    8: (GroupKind.CONSUMER, ForeignGroupPart.CURRENT),
    10: (GroupKind.SHARE, ForeignGroupPart.MEMBER),
    11: (GroupKind.SHARE, ForeignGroupPart.GROUP),
    12: (GroupKind.SHARE, ForeignGroupPart.TARGET),
    14: (GroupKind.SHARE, ForeignGroupPart.CURRENT),
    17: (GroupKind.STREAMS, ForeignGroupPart.GROUP),
    19: (GroupKind.STREAMS, ForeignGroupPart.MEMBER),
    20: (GroupKind.STREAMS, ForeignGroupPart.TARGET),
    22: (GroupKind.STREAMS, ForeignGroupPart.CURRENT),
}
_EPOCHS: Final = {
    ForeignGroupPart.GROUP: "epoch",
    ForeignGroupPart.TARGET: "assignmentEpoch",
    ForeignGroupPart.CURRENT: "memberEpoch",
}


class Unreadable(NamedTuple):
    """A record of a group whose value cannot be read, because it is of an unknown version or malformed. It stands for
    the record, since its group must not be changed."""

    group_id: str
    why: str


Fact = Record | Unreadable


class FactReader:
    """Decodes one partition of `__consumer_offsets`, batch by batch from its beginning, into facts: the records of
    groups that a coordinator replays, or Unreadable. The records of a transaction are held back until it is
    committed."""

    def __init__(self) -> None:
        self.skipped = 0  # Records that were ignored: of unknown types, or with a malformed key.
        self._runs = OffsetRuns()
        self._pending: dict[int, list[Fact]] = {}  # The facts of open transactions, by producer id.

    @property
    def open_transactions(self) -> int:
        """The number of transactions that are neither committed nor aborted yet."""
        return len(self._pending)

    def read(self, batch: Batch) -> Iterator[Fact]:
        """Yields the decoded records of the next batch, and those of a transaction that it commits. Raises
        CorruptBatch."""
        header = batch.header
        if header.is_control:
            yield from self._end(batch)
        elif header.is_transactional:
            self._pending.setdefault(header.producer_id, []).extend(self._facts(batch))
        else:
            for fact in self._facts(batch):
                if self._pending:
                    self._supersede(fact)
                yield fact

    def _supersede(self, fact: Fact) -> None:
        """Removes from open transactions the offsets that this fact replaces: the later record wins, also if the
        transaction is committed after it.
        """
        if isinstance(fact, OffsetsStored | OffsetDeleted):
            newer = _offset_keys(fact)
            self._pending = {
                producer: [part for each in facts for part in _without(each, newer)]
                for producer, facts in self._pending.items()
            }

    def _end(self, batch: Batch) -> Iterator[Fact]:
        plain, position = plain_records(batch), 0
        for _ in range(batch.header.record_count):
            key, _, position = read_key_value(plain, position)
            outcome = read_control_type(key)
            if outcome in TRANSACTION_ENDS:
                facts = self._pending.pop(batch.header.producer_id, [])
                yield from facts if outcome == ControlRecordType.COMMIT else []

    def _facts(self, batch: Batch) -> Iterator[Fact]:
        plain, position, left = plain_records(batch), 0, batch.header.record_count
        while left:
            if run := self._runs.read(plain, position, left):
                yield run.fact
                position, left = run.end, left - run.records
                continue
            key, value, position = read_key_value(plain, position)
            left -= 1
            fact = None if key is None else _fact(key, value)
            if fact is None:
                self.skipped += 1
            else:
                yield fact
        ensure_filled(plain, position)


OffsetKey = tuple[str, str, int]


def _offset_keys(fact: Fact) -> set[OffsetKey]:
    """Returns the partitions whose offsets a fact stores or deletes."""
    if isinstance(fact, OffsetsStored):
        return {(fact.group_id, fact.topic, partition) for partition in fact.partitions}
    return {(fact.group_id, fact.topic, fact.partition)} if isinstance(fact, OffsetDeleted) else set()


def _without(fact: Fact, removed: set[OffsetKey]) -> list[Fact]:
    """Returns a transaction's fact without these partitions; the list is empty if nothing remains."""
    if not _offset_keys(fact) & removed:
        return [fact]
    if not isinstance(fact, OffsetsStored):
        return []
    wanted = [(fact.group_id, fact.topic, partition) not in removed for partition in fact.partitions]
    if not any(wanted):
        return []
    return [
        fact._replace(
            partitions=tuple(compress(fact.partitions, wanted)),
            offsets=tuple(compress(fact.offsets, wanted)),
            leader_epochs=tuple(compress(fact.leader_epochs, wanted)),
            metadata=tuple(compress(fact.metadata, wanted)),
        )
    ]


def _fact(key: bytes, value: bytes | None) -> Fact | None:
    try:
        number, names = read_key(key)
    except UnreadableRecord:
        return None
    read = _READERS.get(number, _foreign)
    try:
        return read(number, key, names, None if value is None else read_value(number, value)[1])
    except UnreadableRecord as error:
        return Unreadable(names.get("group") or names["groupId"], str(error))


def _offset(number: int, key: bytes, names: Values, value: Values | None) -> Fact:
    group_id, topic, partition = names["group"], names["topic"], names["partition"]
    if value is None:
        return OffsetDeleted(group_id=group_id, topic=topic, partition=partition)
    expires_at_ms, topic_id = value.get("expireTimestamp", -1), value.get("topicId", _NO_ID)
    return OffsetsStored(
        group_id,
        topic,
        (partition,),
        (value["offset"],),
        (value.get("leaderEpoch", -1),),
        (value["metadata"],),
        value["commitTimestamp"],
        None if expires_at_ms == -1 else expires_at_ms,
        None if topic_id == _NO_ID else topic_id,
    )


def _group(number: int, key: bytes, names: Values, value: Values | None) -> Fact:
    if value is None:
        return GroupDeleted(group_id=names["group"])
    since_ms = value["currentStateTimestamp"]
    return GroupStored(
        group_id=names["group"],
        generation=value["generation"],
        protocol_type=value["protocolType"] or None,
        protocol=value["protocol"],
        leader_id=value["leader"],
        since_ms=None if since_ms == -1 else since_ms,
        members=tuple(map(_member, value["members"])),
    )


def _member(value: Values) -> StoredMember:
    session_timeout_ms, rebalance_timeout_ms = value["sessionTimeout"], value["rebalanceTimeout"]
    return StoredMember(
        member_id=value["memberId"],
        instance_id=value["groupInstanceId"],
        client_id=value["clientId"],
        client_host=value["clientHost"],
        session_timeout=session_timeout_ms / 1000,
        # Version 0 has no rebalance timeout (GroupMetadataManager.replay).
        rebalance_timeout=(session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms) / 1000,
        subscription=value["subscription"],
        assignment=value["assignment"],
    )


def _foreign(number: int, key: bytes, names: Values, value: Values | None) -> Fact:
    kind, part = _FOREIGN_RECORDS[number]
    group_id, member_id = names["groupId"], names.get("memberId", "")
    if value is None:
        return ForeignGroupTombstone(group_id, kind, key, part, member_id)
    epoch = value[_EPOCHS[part]] if part in _EPOCHS else 0
    is_reconciled = value.get("state", _STABLE) == _STABLE
    return ForeignGroupRecord(group_id, kind, key, part, member_id, epoch, is_reconciled)


_READERS: Final[dict[int, Callable[[int, bytes, Values, Values | None], Fact]]] = {
    record_schemas.LEGACY_OFFSET_COMMIT.number: _offset,
    record_schemas.OFFSET_COMMIT.number: _offset,
    record_schemas.GROUP_METADATA.number: _group,
}
