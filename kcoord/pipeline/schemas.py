"""The tables, and the meaning of each of their columns. `make docs` generates docs/tables.md from this file.

Times are UTC with microseconds, as Spark has them; the log has milliseconds. A time that the log does not contain
(-1), or that no calendar has (before the year 1 or after 9999), is null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIME: Final = pa.timestamp("us", tz="UTC")
_TEXT: Final = pa.string()

COMMITS: Final = "commits"
GENERATIONS: Final = "generations"
GROUP_EVENTS: Final = "group_events"
LOG_ENDS: Final = "log_ends"
OWNERSHIP: Final = "ownership"
REBALANCES: Final = "rebalances"
LAG: Final = "lag"
REJECTED: Final = "rejected"
SCANNED: Final = "scanned"

Row: TypeAlias = Mapping[str, Any]
"""A row of a table that was collected; its times are milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One of the pipeline's tables: its name, what one row of it is (`meaning`), and its columns."""

    name: str
    meaning: str
    schema: pa.Schema
    is_decoded: bool = True
    """Whether it is decoded from the log; the other tables are derived from the decoded ones."""
    has_days: bool = True
    """Whether its files are partitioned by `date`."""


def _column(name: str, kind: pa.DataType, meaning: str, *, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"comment": meaning})


def _always(name: str, kind: pa.DataType, meaning: str) -> pa.Field:
    return _column(name, kind, meaning, nullable=False)


_GROUP: Final = _always("group", _TEXT, "the group's id")
_TOPIC: Final = _always("topic", _TEXT, "the topic's name")
_PARTITION: Final = _always("partition", pa.int32(), "the topic's partition")
_DELETES: Final = _always("tombstone", pa.bool_(), "the record deletes what its key names; its value is null")
_VERSION: Final = _column("version", pa.int16(), "the version of the record's value; null of a tombstone")

SOURCE: Final = (
    _always("source_partition", pa.int32(), "the partition of `__consumer_offsets` that holds the record"),
    _column("source_segment", pa.int64(), "the offset that its file is named after; null if it came over the network"),
    _column("source_offset", pa.int64(), "the record's offset"),
    _column("appended_at", TIME, "the record's timestamp: when the coordinator wrote it"),
    _column("date", pa.date32(), "the day of that, in UTC: what the files are partitioned by"),
)
"""Where a row comes from: the last columns of all decoded tables."""

_PARTITIONS_OF_TOPIC: Final = pa.list_(
    pa.struct([pa.field("topic", _TEXT), pa.field("partitions", pa.list_(pa.int32()))])
)

SUBSCRIPTION: Final = pa.struct(
    [
        pa.field("version", pa.int16()),
        pa.field("topics", pa.list_(_TEXT)),
        pa.field("user_data", pa.binary()),
        pa.field("owned", _PARTITIONS_OF_TOPIC),
        pa.field("generation", pa.int32()),
        pa.field("rack", _TEXT),
    ]
)

ASSIGNMENT: Final = pa.struct(
    [
        pa.field("version", pa.int16()),
        pa.field("assigned", _PARTITIONS_OF_TOPIC),
        pa.field("user_data", pa.binary()),
    ]
)

MEMBER: Final = pa.struct(
    [
        pa.field("member_id", _TEXT),
        pa.field("instance_id", _TEXT),
        pa.field("client_id", _TEXT),
        pa.field("client_host", _TEXT),
        pa.field("session_timeout_ms", pa.int32()),
        pa.field("rebalance_timeout_ms", pa.int32()),
        pa.field("subscription", SUBSCRIPTION),
        pa.field("assignment", ASSIGNMENT),
        pa.field("subscription_bytes", pa.binary()),
        pa.field("assignment_bytes", pa.binary()),
    ]
)

_COMMITS: Final = Table(
    name=COMMITS,
    meaning="""Every offset that was committed or deleted: OffsetCommit records, key versions 0 and 1, value versions 0
to 4. Commits of transactions are there if the transaction was committed.""",
    schema=pa.schema(
        [
            _GROUP,
            _TOPIC,
            _PARTITION,
            _column("offset", pa.int64(), "what was committed: the next offset to be read; null of a tombstone"),
            _column("epoch", pa.int32(), "the partition's leader epoch that the consumer had seen; null if unknown"),
            _column("metadata", _TEXT, "the text that came with the commit; null of a tombstone"),
            _column("committed_at", TIME, "when it was committed"),
            _column("expires_at", TIME, "when it expires; only version 1 has it, null means by the broker's settings"),
            _DELETES,
            _column("topic_id", _TEXT, "the topic's id as Kafka shows it; from version 4 on, null if it is not known"),
            _VERSION,
            _always("transactional", pa.bool_(), "it was committed in a transaction"),
            *SOURCE,
        ]
    ),
)

_GENERATIONS: Final = Table(
    name=GENERATIONS,
    meaning="""Every GroupMetadata record: what a classic group was after a rebalance, when it became empty, and its
deletion; value versions 0 to 4.""",
    schema=pa.schema(
        [
            _GROUP,
            _column("generation", pa.int32(), "null of a tombstone"),
            _always(
                "state",
                _TEXT,
                "the state that a coordinator gives the group when it loads the record: `Stable` with members, "
                "`Empty` without, `Dead` for a tombstone",
            ),
            _column("protocol_type", _TEXT, "`consumer`, `connect`, …; empty if the group only commits"),
            _column("protocol", _TEXT, "the strategy that the members voted for"),
            _column("leader", _TEXT, "the member id of the leader"),
            _column("state_since", TIME, "since when the group is in this state; from version 2 on"),
            _column(
                "members",
                pa.list_(MEMBER),
                "who is in it; null of a tombstone. `subscription` and `assignment` are decoded if the protocol type "
                "is `consumer` and the bytes are valid (a newer version is read as the newest one known); otherwise "
                "`subscription_bytes` and `assignment_bytes` have the bytes. Version 0 has no `rebalance_timeout_ms`: "
                "it is -1",
            ),
            _DELETES,
            _VERSION,
            *SOURCE,
        ]
    ),
)

_GROUP_EVENTS: Final = Table(
    name=GROUP_EVENTS,
    meaning="""Every record of a consumer (KIP-848), share or streams group: group, member, target and current
assignment, topology, …, with its payload as JSON.""",
    schema=pa.schema(
        [
            _GROUP,
            _column("member_id", _TEXT, "if the record is about one member"),
            _always("record_type", pa.int16(), "the number that the key begins with"),
            _always("record_name", _TEXT, "Kafka's name for it: `ConsumerGroupMemberMetadata`, …"),
            _always("key", _TEXT, "the key's fields by Kafka's names, as JSON"),
            _column("payload", _TEXT, "the value's fields, as JSON as kafka-dump-log shows them; null of a tombstone"),
            _DELETES,
            _VERSION,
            *SOURCE,
        ]
    ),
)

_LOG_ENDS: Final = Table(
    name=LOG_ENDS,
    meaning="""How the log of a topic's partition grew, batch by batch, from the headers alone: `lag` compares commits
with it. Headers have no topic id: that a topic was deleted and recreated under its name shows only in batches that
overlap.""",
    schema=pa.schema(
        [
            _TOPIC,
            _PARTITION,
            _always("base_offset", pa.int64(), "the offset of the batch's first record"),
            _always("end_offset", pa.int64(), "the offset after its last record"),
            _column("last_at", TIME, "the largest timestamp in it"),
            _column("date", pa.date32(), "the day of that, in UTC: what the files are partitioned by"),
        ]
    ),
)

_OWNERSHIP: Final = Table(
    name=OWNERSHIP,
    meaning="""Who owned which partition from when to when: one row for each member and partition without a break. A
static member that comes back has a new member id, and so a new row. A partition that a member of a consumer group has
to revoke belongs to it until it has revoked it. Partitions of a share group have several owners at a time; for streams
groups the log has tasks instead of partitions, so they are not here.""",
    is_decoded=False,
    schema=pa.schema(
        [
            _GROUP,
            _always("topic", _TEXT, "the topic's name; its id if the name is in no record that was read"),
            _PARTITION,
            _always("member_id", _TEXT, "the owner"),
            _column("instance_id", _TEXT, "of a static member"),
            _column("client_id", _TEXT, "the client id"),
            _column("client_host", _TEXT, "where it connects from"),
            _column("from_generation", pa.int32(), "the generation, or the member's epoch, that assigned it"),
            _column(
                "until_generation",
                pa.int32(),
                "the one that took it away; null if it still owns it, or if the group, or the member of a consumer "
                "group, was deleted",
            ),
            _column("owned_from", TIME, "when that was written"),
            _column("owned_until", TIME, "null if it still owns it at the end of what was read"),
            _column("date", pa.date32(), "the day of `owned_from`, in UTC: what the files are partitioned by"),
        ]
    ),
)

_REBALANCES: Final = Table(
    name=REBALANCES,
    meaning="""Each change from one generation of a classic group, or epoch of another, to the next, and why, as far as
the log shows. A group that becomes empty has such a row too. A static member that comes back into a stable group
changes no generation: `from_generation` is `generation` then. Generations that were superseded before their plan had
come are not in the log, nor are those that compaction has removed: their numbers are missing.

`causes`: `joined`, `left`; `replaced`: one came and one went with the same client id and host; `static returned`: an
instance id has a new member id; `subscription changed`: of a member that stayed; and only if none of these happened
`handed over`: partitions that a cooperative rebalance took away are given to others; `partitions changed`: there are
others than before; `unknown`.""",
    is_decoded=False,
    schema=pa.schema(
        [
            _GROUP,
            _column("generation", pa.int32(), "the generation, or epoch, that it led to"),
            _column("from_generation", pa.int32(), "the one before; null if there is none, or it is not in the log"),
            _column(
                "started_at",
                TIME,
                "for an epoch, when it was written. When members of a classic group began to join is not in the log: "
                "for its first generation it is when the first member came, for all others when the last one had "
                "joined, so that the plan could be made; null for records before version 2",
            ),
            _column(
                "ended_at",
                TIME,
                "when the plan of the new generation was written; for an epoch, when all members had reached it, or "
                "the next one began; null if it had not ended",
            ),
            _column(
                "duration_ms",
                pa.int64(),
                "from `started_at` to `ended_at`: how long it took at least. For classic groups `pause_ms` shows more",
            ),
            _column("causes", pa.list_(_TEXT), "why, as listed above; several if several happened"),
            _column("joined", pa.list_(_TEXT), "the member ids that are new; null if it is not known who was before"),
            _column("left", pa.list_(_TEXT), "the member ids that are gone; null likewise"),
            _column("members", pa.int32(), "how many there are after it"),
            _column(
                "moved_partitions",
                pa.int32(),
                "how many partitions got another owner than the last one they had; a static member is the same owner "
                "when it comes back; null of share and streams groups, and if it is not known who was before",
            ),
            _column(
                "pause_ms",
                pa.int64(),
                "from the group's last commit before it to the first one after it: about how long the group paused. "
                "The time between any two commits is part of it, and a commit while members join makes it shorter; "
                "null if one of these commits is missing, if the group was or became empty, or if nothing was "
                "committed since the rebalance before, whose pause it shares",
            ),
            _column(
                "date",
                pa.date32(),
                "the day of `ended_at`, or of `started_at`, in UTC: what the files are partitioned by",
            ),
        ]
    ),
)

_LAG: Final = Table(
    name=LAG,
    meaning="""Each committed offset compared with the end of the log at that time: one row for each commit whose time
is known, and one for each deletion of an offset, by a request or because it expired: there is no lag from then on. What
is unknown about a partition's log is null. A batch counts as written at the latest timestamp that producers gave its
records and those before it. If a topic was deleted and recreated, so that batches overlap, a batch counts as written at
its own latest timestamp, and `next_at` may belong to a batch of the other topic.""",
    is_decoded=False,
    schema=pa.schema(
        [
            _GROUP,
            _TOPIC,
            _PARTITION,
            _always("at", TIME, "when it was committed, or deleted"),
            _column("committed", pa.int64(), "the offset that was committed; null if it was deleted"),
            _column("log_end", pa.int64(), "the end of the partition's log at that time"),
            _column("lag", pa.int64(), "the offsets between, as Kafka counts lag; 0 if more was committed than that"),
            _column(
                "lag_ms",
                pa.int64(),
                "the age of the first record that was not read yet, at least: by the newest timestamp in its batch; "
                "0 if all were read",
            ),
            _column(
                "next_at",
                TIME,
                "that timestamp, also if the batch came after the commit; null if the log ends there",
            ),
            _column("date", pa.date32(), "the day of `at`, in UTC: what the files are partitioned by"),
        ]
    ),
)

_REJECTED: Final = Table(
    name=REJECTED,
    meaning="""What could not be decoded: records, batches, and bytes that are no batch. Nothing of it stops a job. A
record of a type or a version that Kafka 4.3 does not have is here too.""",
    has_days=False,  # rows without a time would be in a folder whose day pandas cannot read
    schema=pa.schema(
        [
            _always("reason", _TEXT, "what is wrong"),
            _always(
                "what", _TEXT, "`record`; `batch`: the rest of its records; `segment`: all from there on, or a gap"
            ),
            _always("records", pa.int64(), "how many records that are; 0 if unknown"),
            _column(
                "claimed",
                pa.int64(),
                "for a batch with a wrong checksum: the record count in its header, which may be wrong; `records` is 0",
            ),
            _column(
                "bytes",
                pa.int64(),
                "of a batch: its size; of a segment: bytes from there on; null of a record or a gap",
            ),
            _column("key", pa.binary(), "of a record: the bytes of its key"),
            _column("value", pa.binary(), "of a record: the bytes of its value"),
            _column("position", pa.int64(), "where in the file the batch begins"),
            *SOURCE,
        ]
    ),
)

_SCANNED: Final = Table(
    name=SCANNED,
    meaning="""What was read, one row for each range of a segment or, of a live cluster, of a partition's log. `records`
is the sum of the columns after it: no record is lost unseen.""",
    has_days=False,
    schema=pa.schema(
        [
            _TOPIC,
            _PARTITION,
            _column("source_segment", pa.int64(), "the offset that the file is named after; null of a live cluster"),
            _always("start", pa.int64(), "the range's first position in the file; of a live cluster, its first offset"),
            _always("end", pa.int64(), "the position, or offset, after the range's last one"),
            _always("bytes", pa.int64(), "how many bytes were read for it"),
            _always("batches", pa.int64(), "batches whose checksum is right"),
            _always("records", pa.int64(), "the record counts in the headers of these batches, added up"),
            _always("commits", pa.int64(), "rows of `commits`"),
            _always("generations", pa.int64(), "rows of `generations`"),
            _always("group_events", pa.int64(), "rows of `group_events`"),
            _always("rejected", pa.int64(), "records of `rejected`"),
            _always("control", pa.int64(), "control records: the markers of transactions"),
            _always("aborted", pa.int64(), "records of aborted transactions, which are skipped"),
            _always("open", pa.int64(), "records of transactions without an end, which are skipped"),
            _always("plain", pa.int64(), "records of other topics, which are not decoded"),
            _always("left_out", pa.int64(), "rows of groups or times that were not requested"),
        ]
    ),
)

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        each.name: each
        for each in (
            *(_COMMITS, _GENERATIONS, _GROUP_EVENTS, _OWNERSHIP, _REBALANCES),
            *(_LAG, _LOG_ENDS, _REJECTED, _SCANNED),
        )
    }
)


def spark_schema(table: str) -> "StructType":
    """Returns the schema of a table in Spark's types, with the meanings of the columns as comments."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(each.name, from_arrow_type(each.type), each.nullable, {"comment": meaning_of(each)})
            for each in TABLES[table].schema
        ]
    )


def meaning_of(column: pa.Field) -> str:
    """Returns what a column of a table means, as docs/tables.md shows it."""
    return str(column.metadata[b"comment"].decode())
