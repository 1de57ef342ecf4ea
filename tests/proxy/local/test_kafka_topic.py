"""The journal's topic on `kcoord serve`: its checks, and the permissions that its reader does not need."""

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kcoord.admin.connecting.connection import Connection, ConnectionOptions, resolve_connection
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.proxy.local.kafka_reader import Claims, KafkaReader
from kcoord.proxy.local.kafka_topic import LARGEST_RECORD, BadJournalTopic, JournalTopic, KafkaJournal, ensure_topic
from kcoord.proxy.local.runtime import RuntimeSetup
from kcoord.settings import Settings
from kcoord.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def upstream() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def journal_of(upstream: EmbeddedCluster, request: pytest.FixtureRequest) -> Callable[[dict[str, str]], KafkaJournal]:
    """Returns a function that creates a topic of 2 partitions with given settings, as another client might."""

    def make(settings: dict[str, str]) -> KafkaJournal:
        journal = KafkaJournal(upstream=connection_to(upstream), topic=request.node.name)
        configs = [{"name": name, "value": value} for name, value in settings.items()]
        new = {"name": journal.topic, "num_partitions": 2, "replication_factor": 1, "configs": configs}
        host, _, port = upstream.bootstrap.rpartition(":")
        with Client(host, int(port)) as client:
            (made,) = client.ask(ApiKey.CREATE_TOPICS, 5, topics=[new], timeout=timedelta(seconds=10)).topics
        assert made.error_code is ErrorCode.none
        return journal

    return make


def connection_to(cluster: EmbeddedCluster) -> Connection:
    return resolve_connection(ConnectionOptions(bootstrap=cluster.bootstrap), {})


def test_a_topic_that_is_made_here_takes_large_groups(
    upstream: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    journal = KafkaJournal(upstream=connection_to(upstream), topic="made-here", partitions=3)

    assert ensure_topic(journal) == JournalTopic(3, LARGEST_RECORD)
    assert ensure_topic(journal) == JournalTopic(3, LARGEST_RECORD), "and is found as it was made"
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


def test_a_topic_that_takes_less_is_used_with_a_warning(
    journal_of: Callable[[dict[str, str]], KafkaJournal], caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_of({"cleanup.policy": "compact", "max.message.bytes": "300000"})

    assert ensure_topic(journal) == JournalTopic(2, 300_000)
    assert "has max.message.bytes=300000: plans of groups that are larger are refused" in caplog.text


def test_a_topic_that_is_too_small_for_offsets_is_refused(
    journal_of: Callable[[dict[str, str]], KafkaJournal],
) -> None:
    journal = journal_of({"cleanup.policy": "compact", "max.message.bytes": "100000"})

    with pytest.raises(BadJournalTopic, match=r"max\.message\.bytes=100000, which is too little for offsets"):
        ensure_topic(journal)


def test_a_topic_that_forgets_is_refused(journal_of: Callable[[dict[str, str]], KafkaJournal]) -> None:
    with pytest.raises(BadJournalTopic, match=r"cleanup\.policy=delete, which forgets groups"):
        ensure_topic(journal_of({"cleanup.policy": "delete"}))


@pytest.mark.parametrize(("setting", "limit"), [(1_000_000, 300_000 - 128), (1000, 1000)])
def test_plans_are_limited_by_the_setting_and_by_what_the_topic_takes(setting: int, limit: int) -> None:
    runtime = RuntimeSetup(settings=Settings(message_max_bytes=setting))

    limited = runtime.limited_to(JournalTopic(2, 300_000).largest_record)

    assert limited.settings.message_max_bytes == limit


def test_who_reads_the_journal_needs_no_rights_on_any_group(tmp_path: Path) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("allow User:ANONYMOUS read, describe topic journal\n")
    with EmbeddedCluster(topics={"journal": 2}, options=("--rules", str(rules))) as cluster:
        journal = KafkaJournal(upstream=connection_to(cluster), topic="journal")

        assert KafkaReader(journal, lambda: False).read([-1, -1]) == [{}, {}]
        assert KafkaReader(journal, lambda: False).claims_after(-1) == Claims([], -1)
        assert "operation=describe group='kcoord-journal-journal'" in cluster.log(), "librdkafka has asked for it"
