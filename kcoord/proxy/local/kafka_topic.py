"""The topic of a journal on the upstream cluster: created if missing, refused if its settings would lose records."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]  # its types do not export them
from confluent_kafka.cimpl import NewTopic

from kcoord.admin.connecting.connection import Connection, librdkafka_configuration
from kcoord.admin.librdkafka.errors import clean_message, without_secrets
from kcoord.exceptions import RemoteFailure
from kcoord.protocol.uuids import parse_uuid

log = logging.getLogger("kcoord.storage")

DEFAULT_TOPIC: Final = "__kcoord_offsets"
DEFAULT_PARTITIONS: Final = 8
BROKERS_DEFAULT: Final = -1  # lets the broker choose the replication factor (KIP-464)
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})
"""Kafka's internal topics, which are compacted, too, and must not be used."""
LARGEST_RECORD: Final = 16 << 20
"""Bytes, far above the default of 1 MiB: a record holds a group with all its members, and a larger one could never be
written."""
_MIN_MAX_MESSAGE_BYTES: Final = 128 << 10
"""Room for any record except a group's plan: a group id, a topic and a metadata text have at most 32,767 bytes each."""
_RETRY_INTERVAL: Final = 0.1  # seconds
_FRAMING: Final = 128
"""Bytes of a batch in addition to the key and value of its one record, rounded up."""


class BadJournalTopic(RemoteFailure, RuntimeError):
    """Raised when the topic for groups' records on the upstream cluster (the journal) cannot be used or created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaJournal:
    """The settings of a journal on the upstream cluster, the topic in which the proxy stores groups' records.
    `partitions` and `replication_factor` apply if the topic has to be created.
    """

    upstream: Connection
    topic: str = DEFAULT_TOPIC
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int = BROKERS_DEFAULT

    @property
    def transactional_id(self) -> str:
        """The transactional id of the producer that writes the journal: a new producer with it becomes the writer, and
        fences earlier ones.
        """
        return f"kcoord-journal-{self.topic}"


class JournalTopic(NamedTuple):
    """The properties of the journal's existing topic (with groups' records): its number of partitions, and its
    max.message.bytes.
    """

    partitions: int
    max_message_bytes: int

    @property
    def largest_record(self) -> int:
        """The most bytes that the key and value of a record in the journal may have together."""
        return min(self.max_message_bytes, LARGEST_RECORD) - _FRAMING


def configuration(journal: KafkaJournal, **more: Any) -> dict[str, Any]:
    """Returns the librdkafka settings of a client for the journal, with `more` added. The client logs nothing: its
    errors are raised, and logged by kcoord.
    """
    silent = logging.Logger("librdkafka")
    silent.addHandler(logging.NullHandler())
    return {**librdkafka_configuration(journal.upstream), "logger": silent, **more}


def ensure_topic(journal: KafkaJournal) -> JournalTopic:
    """Creates the journal's topic, which stores groups' records, if it is missing, and checks its settings. Blocks.
    Raises BadJournalTopic.
    """
    if journal.topic in _INTERNAL:
        raise BadJournalTopic(
            f"the journal's topic cannot be {journal.topic!r}: that is Kafka's own, and nobody else's"
        )
    with _admin(journal) as admin:
        found = _partitions(admin, journal)
        if found is None:
            if _create(admin, journal):
                return JournalTopic(journal.partitions, LARGEST_RECORD)
            found = _partitions(admin, journal) or journal.partitions
        settings = _settings(admin, journal)
        _require_compact(journal, settings)
        return JournalTopic(found, _max_message_bytes(journal, settings))


def ensure_is_unchanged(journal: KafkaJournal, partitions: int) -> None:
    """Checks that the journal's topic, which stores groups' records, still exists with so many partitions. Blocks.
    Raises BadJournalTopic.
    """
    with _admin(journal) as admin:
        found = _partitions(admin, journal)
        if found is None:
            raise BadJournalTopic(
                f"the journal's topic {journal.topic!r} is gone, and all groups with it: a restart begins with none"
            )
        if found != partitions:
            raise BadJournalTopic(
                f"the journal's topic {journal.topic!r} has {found} partitions, it had {partitions}: "
                "groups would be looked for in others"
            )
        _require_compact(journal, _settings(admin, journal))


def find_topic_id(journal: KafkaJournal) -> UUID | None:
    """Returns the topic id of the journal; None if the cluster has no topic ids. Blocks. Raises BadJournalTopic.

    Brokers learn of a topic that was just created a little later than the controller, so it is retried.
    """
    deadline = time.monotonic() + journal.upstream.request_timeout
    with _admin(journal) as admin:
        while True:
            described = admin.describe_topics(
                TopicCollection([journal.topic]), request_timeout=journal.upstream.request_timeout
            )[journal.topic]
            try:
                shown = described.result().topic_id
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_INTERVAL)
            else:
                topic_id = parse_uuid(str(shown))
                return topic_id if topic_id.int else None


@contextmanager
def _admin(journal: KafkaJournal) -> Iterator[AdminClient]:
    """Opens an admin client, whose errors it turns into BadJournalTopic."""
    configured = configuration(journal)
    try:
        yield AdminClient(configured)
    except KafkaException as error:
        reason = without_secrets(clean_message(error.args[0].str()), configured)
        raise BadJournalTopic(f"the journal's topic {journal.topic!r} cannot be used: {reason}") from None


def _partitions(admin: AdminClient, journal: KafkaJournal) -> int | None:
    """Returns how many partitions the topic has; None if there is no such topic."""
    metadata = admin.list_topics(timeout=journal.upstream.request_timeout).topics.get(journal.topic)
    if metadata is None:
        return None
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    return len(metadata.partitions)


def _create(admin: AdminClient, journal: KafkaJournal) -> bool:
    """Creates the topic; False if another client has created it meanwhile."""
    topic = NewTopic(
        journal.topic,
        num_partitions=journal.partitions,
        replication_factor=journal.replication_factor,
        config={"cleanup.policy": "compact", "max.message.bytes": str(LARGEST_RECORD)},
    )
    created = admin.create_topics([topic], request_timeout=journal.upstream.request_timeout)[journal.topic]
    try:
        created.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    log.info("journal made topic=%s partitions=%s", journal.topic, journal.partitions)
    return True


def _settings(admin: AdminClient, journal: KafkaJournal) -> Mapping[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, journal.topic)
    described = admin.describe_configs([resource], request_timeout=journal.upstream.request_timeout)[resource]
    return {name: entry.value for name, entry in described.result().items()}


def _require_compact(journal: KafkaJournal, settings: Mapping[str, str]) -> None:
    policy = settings["cleanup.policy"]
    if policy != "compact":
        raise BadJournalTopic(
            f"the journal's topic {journal.topic!r} has cleanup.policy={policy}, which forgets groups: "
            "it must be compact, or take another name by --journal-topic"
        )


def _max_message_bytes(journal: KafkaJournal, settings: Mapping[str, str]) -> int:
    """Returns the topic's max.message.bytes, with a warning if it is below kcoord's default."""
    most = int(settings["max.message.bytes"])
    if most < _MIN_MAX_MESSAGE_BYTES:
        raise BadJournalTopic(
            f"the journal's topic {journal.topic!r} has max.message.bytes={most}, which is too little for offsets: "
            f"it must be {_MIN_MAX_MESSAGE_BYTES} at least, better {LARGEST_RECORD}"
        )
    if most < LARGEST_RECORD:
        log.warning(
            "journal topic=%s has max.message.bytes=%s: plans of groups that are larger are refused; "
            "one that is made here has %s",
            journal.topic,
            most,
            LARGEST_RECORD,
        )
    return most
