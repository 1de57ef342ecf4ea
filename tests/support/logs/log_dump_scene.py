"""Every kind of record that a broker writes to __consumer_offsets, caused by plain requests.

Groups of all kinds (classic, consumer, share, streams), one that changes from classic to consumer while its member
stays, deleted groups and offsets, commits inside transactions, and a topic with records of its own in every codec.
"""

import struct
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch

TOPIC: Final = "orders"
PARTITIONS: Final = 3


NOT_YET: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
LONG: Final = timedelta(seconds=60)
PATIENCE: Final = 60.0


class LogScene:
    """One broker and a sequence of requests; a step returns when its records are written."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._client = Client(host, int(port), client_id="log-dump")
        made = self._client.ask(
            ApiKey.CREATE_TOPICS,
            7,
            topics=[{"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}],
            timeout=LONG,
        )
        assert not made.topics[0].error_code, made
        self.topic_id: UUID = made.topics[0].topic_id
        # A fresh broker creates the offsets topic at the first FindCoordinator, then loads it.
        until(lambda: not self._client.ask(ApiKey.FIND_COORDINATOR, 3, key="any", key_type=0).error_code)

    def play(self) -> None:
        self.classic_group("classic", instance_id="static-1")
        self.classic_group("connectors", protocol_type="connect", subscription=b"\x00\xff", assignment=b"opaque")
        self.commit("classic-simple", offset=41)
        self.commit("gone-offsets", offset=42)
        self.delete_offsets("gone-offsets")
        self.commit("gone", offset=43)
        self.delete_group("gone")
        self.consumer_group("consumers", regex="ord.*")
        self.upgraded_group("upgraded")
        self.share_group("sharing")
        self.streams_group("streaming")
        self.transaction("committed-txn", commits=True)
        self.transaction("aborted-txn", commits=False)

    def produce_every_codec(self) -> None:
        """Writes records with headers, without keys, without values, and with bytes that are no text."""
        records = [
            Record(timestamp=1_700_000_000_000, key=b"a", value=b"one", headers=(("h", b"1"), ("i", None))),
            Record(timestamp=1_700_000_000_007, key=None, value=b"\xff\x00\x1b[31m"),
            Record(timestamp=1_700_000_000_003, key=b"b", value=None),
        ]
        for codec in Codec:
            self._produce(write_batch(records, codec=codec))

    def classic_group(
        self,
        group: str,
        *,
        protocol_type: str = "consumer",
        subscription: bytes | None = None,
        assignment: bytes | None = None,
        instance_id: str | None = None,
    ) -> tuple[str, int]:
        """Creates a stable group of one member."""
        if subscription is None:
            subscription = consumer_subscription(TOPIC)
        asked = {
            "group_id": group,
            "session_timeout": LONG,
            "rebalance_timeout": LONG,
            "member_id": "",
            "group_instance_id": instance_id,
            "protocol_type": protocol_type,
            "protocols": [{"name": "range", "metadata": subscription}],
        }
        # Version 3 has no instance ids; version 5 requires members without one to join again with a member id.
        joined = self._good(lambda: self._client.ask(ApiKey.JOIN_GROUP, 5 if instance_id else 3, **asked))
        self._good(
            lambda: self._client.ask(
                ApiKey.SYNC_GROUP,
                3,
                group_id=group,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=instance_id,
                assignments=[
                    {
                        "member_id": joined.member_id,
                        "assignment": consumer_assignment(TOPIC) if assignment is None else assignment,
                    }
                ],
            )
        )
        return joined.member_id, joined.generation_id

    def commit(self, group: str, *, offset: int, note: str = "note") -> None:
        partitions = [
            {
                "partition_index": index,
                "committed_offset": offset + index,
                "committed_leader_epoch": index - 1,
                "committed_metadata": f"{note} {index}",
            }
            for index in range(PARTITIONS)
        ]
        self._client.ask(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": TOPIC, "partitions": partitions}],
        )

    def delete_offsets(self, group: str) -> None:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        self._good(lambda: self._client.ask(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics))

    def delete_group(self, group: str) -> None:
        (result,) = self._client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[group]).results
        assert not result.error_code, result

    def consumer_group(self, group: str, *, regex: str | None = None, member_id: str = "member-1") -> None:
        """Lets one member of a KIP-848 group join, take its assignment, and leave."""
        joining: dict[str, Any] = {
            "group_id": group,
            "member_id": member_id,
            "member_epoch": 0,
            "rebalance_timeout": LONG,
            "subscribed_topic_names": [TOPIC],
            "subscribed_topic_regex": regex,
            "server_assignor": "uniform",
            "topic_partitions": [],
        }
        joined = self._good(lambda: self._client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **joining))
        going = {**joining, "member_epoch": -1, "topic_partitions": None}
        until(lambda: self._beat(group, member_id, joined.member_epoch) > 0)
        self._good(lambda: self._client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **going))

    def upgraded_group(self, group: str) -> None:
        """Lets a member of the new protocol join while a classic one stays: the group changes its type."""
        self.classic_group(group)
        self._good(
            lambda: self._client.ask(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                1,
                group_id=group,
                member_id="newcomer",
                member_epoch=0,
                rebalance_timeout=LONG,
                subscribed_topic_names=[TOPIC],
                topic_partitions=[],
            )
        )

    def share_group(self, group: str) -> None:
        asked = {"group_id": group, "member_id": "sharer", "rack_id": "r1", "subscribed_topic_names": [TOPIC]}
        self._good(lambda: self._client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **asked, member_epoch=0))
        self._good(lambda: self._client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **asked, member_epoch=-1))

    def streams_group(self, group: str) -> None:
        changelog = {
            "name": "counts-changelog",
            "partitions": 0,
            "replication_factor": 1,
            "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
        }
        subtopology = {
            "subtopology_id": "0",
            "source_topics": [TOPIC],
            "source_topic_regex": [],
            "state_changelog_topics": [changelog],
            "repartition_sink_topics": [],
            "repartition_source_topics": [],
            "copartition_groups": [{"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": []}],
        }
        unchanged: dict[str, Any] = {
            "group_id": group,
            "member_id": "streamer",
            "endpoint_information_epoch": 0,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
        }
        joining = {
            **unchanged,
            "rebalance_timeout": LONG,
            "topology": {"epoch": 1, "subtopologies": [subtopology]},
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "process-1",
            "user_endpoint": {"host": "127.0.0.1", "port": 40_000},
            "client_tags": [{"key": "zone", "value": "a"}],
        }
        answers = [self._good(lambda: self._client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **joining, member_epoch=0))]

        def has_tasks() -> bool:
            """Whether there are tasks: not before the broker has created the changelog topic."""
            epoch = answers[-1].member_epoch
            answers.append(
                self._good(lambda: self._client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **unchanged, member_epoch=epoch))
            )
            return bool(answers[-1].active_tasks)

        until(has_tasks)
        self._good(lambda: self._client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **unchanged, member_epoch=-1))

    def transaction(self, group: str, *, commits: bool) -> None:
        """Commits one offset, and writes a record, inside a transaction."""
        name = f"{group}-writer"
        until(lambda: not self._client.ask(ApiKey.FIND_COORDINATOR, 3, key=name, key_type=1).error_code)

        def init_producer() -> Any:
            return self._client.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=LONG)

        made = self._good(init_producer)
        who = {"transactional_id": name, "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        topics = [{"name": TOPIC, "partitions": [0]}]
        self._client.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=topics,
        )
        stamp = ProducerStamp(id=made.producer_id, epoch=made.producer_epoch, base_sequence=0, is_transactional=True)
        records = [Record(timestamp=1_700_000_000_000, key=b"t", value=group.encode())]
        self._produce(write_batch(records, producer=stamp), transactional_id=name)
        self._good(lambda: self._client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, **who, group_id=group))
        partition = {
            "partition_index": 0,
            "committed_offset": 7,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }
        answer = self._client.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            3,
            **who,
            group_id=group,
            generation_id=-1,
            member_id="",
            topics=[{"name": TOPIC, "partitions": [partition]}],
        )
        assert not answer.topics[0].partitions[0].error_code, answer
        self._good(lambda: self._client.ask(ApiKey.END_TXN, 3, **who, committed=commits))
        self._good(init_producer)  # refused until the markers are written

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        configs = [{"name": name, "config_operation": 0, "value": value}]
        resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}]
        (answer,) = self._client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources).responses
        assert not answer.error_code, answer

    def close(self) -> None:
        self._client.close()

    def _beat(self, group: str, member_id: str, epoch: int) -> int:
        """Returns the epoch of the member once it owns all partitions."""
        owned = [{"topic_id": self.topic_id, "partitions": list(range(PARTITIONS))}]
        answer = self._client.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout=LONG,
            topic_partitions=owned,
        )
        assert not answer.error_code, answer
        return int(answer.member_epoch)

    def _produce(self, batch: bytes, *, transactional_id: str | None = None) -> None:
        def is_done() -> bool:
            answer = self._client.ask(
                ApiKey.PRODUCE,
                9,
                transactional_id=transactional_id,
                acks=-1,
                timeout=LONG,
                topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
            )
            return not answer.responses[0].partition_responses[0].error_code

        until(is_done)

    def _good(self, ask: Callable[[], Any]) -> Any:
        """Returns the first answer without an error: it retries while a coordinator loads or ends a transaction."""
        answers: list[Any] = []

        def is_decided() -> bool:
            answers.append(ask())
            return answers[-1].error_code not in NOT_YET

        until(is_decided)
        assert not answers[-1].error_code, answers[-1]
        return answers[-1]


def consumer_subscription(topic: str) -> bytes:
    """Encodes a ConsumerProtocolSubscription of version 3: topics, user data, owned partitions, generation, rack."""
    return struct.pack(">hi", 3, 1) + _string(topic) + struct.pack(">iii", -1, 0, -1) + _string("rack")


def consumer_assignment(topic: str) -> bytes:
    """Encodes a ConsumerProtocolAssignment of version 1: partitions by topic, user data."""
    partitions = struct.pack(f">i{PARTITIONS}i", PARTITIONS, *range(PARTITIONS))
    return struct.pack(">hi", 1, 1) + _string(topic) + partitions + struct.pack(">i", -1)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_done():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
