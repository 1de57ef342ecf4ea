"""The history of groups that the pipeline must reconstruct from the log alone, and the reports of their clients.

| group       | what happens to it                                                                                     |
|-------------|--------------------------------------------------------------------------------------------------------|
| range       | three clients of different kinds join one by one; one leaves, one is killed, the last one leaves; its  |
|             | offsets are reset and one of them is deleted                                                           |
| cooperative | the same with the cooperative protocol, but the last one stays                                         |
| static      | two static members; one is closed and returns, the other is killed and returns: all in one generation  |
| talkative   | no members; commits so much that the log gets a second segment                                         |
| expiring    | no members; its offsets expire, and it with them                                                       |
| deleted     | no members; deleted                                                                                    |

Only a broker serves these:

| group       | what happens to it                                                                                     |
|-------------|--------------------------------------------------------------------------------------------------------|
| modern      | KIP-848: one joins, another joins, that one leaves                                                     |
| paid        | no members; commits in a transaction that is committed                                                 |
| unpaid      | no members; commits, and once more in a transaction that is aborted                                    |
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from tests.clients.group_members.programs import Programs
from tests.integration.support.group_member import Member
from tests.integration.support.group_scene import GroupScene
from tests.support.admin.offsets_scene import OffsetsScene, kcoord
from tests.support.logs.log_dump_scene import until

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "2",
    "offsets.retention.check.interval.ms": "500",
}
BROKER_SETTINGS: Final = SETTINGS | {
    "offsets.topic.segment.bytes": "1048576",  # the smallest segment of a broker
    "log.cleaner.min.compaction.lag.ms": "3600000",  # a compacted log has fewer records
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
}

RANGE, COOPERATIVE, STATIC, MODERN = "range", "cooperative", "static", "modern"
TALKATIVE, EXPIRING, DELETED, PAID, UNPAID = "talkative", "expiring", "deleted", "paid", "unpaid"
"""`talkative` is in the same partition of the offsets topic as `cooperative`."""

PARTITIONS: Final = 6
PAYMENT: Final = (40, 41)
"""The offsets that both transactions commit."""
UNPAID_OFFSET: Final = 1
RESET_TO: Final = 3
SESSION_MS: Final = 5000
DEADLINE: Final = 60.0
VERSION_WITH_RETENTION: Final = 4
"""The last version in which a commit sets its retention."""
TOPIC_RESOURCE, SET = 2, 0

STORY: Final = {
    RANGE: ["joined", "joined", "joined", "left", "left", "left"],
    COOPERATIVE: ["joined", "joined", "joined", "left", "left"],
    STATIC: ["joined", "joined", "static returned", "static returned"],
    MODERN: ["joined", "joined", "left"],
}
"""Why each group rebalanced."""

Life = dict[str, list[Member]]
"""The members that each group had: their events remain available when they are gone."""


class Stage:
    """A cluster of one broker on which a history is played."""

    def __init__(self, bootstrap: str, programs: Programs, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.life: Life = {}
        self._programs = programs
        self._undo_folder = folder
        self._offsets = OffsetsScene(bootstrap)

    @contextmanager
    def group(self, name: str) -> Iterator[GroupScene]:
        """Starts a group. Its last members stay members in the log: their processes end, but not their sessions."""
        scene = GroupScene(self.bootstrap, self._programs, name=name)
        try:
            scene.topic(partitions=PARTITIONS)
            yield scene
        finally:
            self.life[name] = scene.members
            scene.close()

    def commit(self, group: str, offsets: dict[tuple[str, int], int], *, text: str = "") -> None:
        """Commits without a member."""
        self._offsets.commit(group, {tp: (offset, -1, text) for tp, offset in offsets.items()})

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return self._offsets.offsets(group)

    def kcoord(self, *arguments: str) -> None:
        """Runs a command that changes something."""
        run = kcoord(*arguments, "--execute", "--undo-dir", str(self._undo_folder), "-b", self.bootstrap)
        assert run.exit_code == 0, run.stderr

    def ask(self, key: int, version: int, **fields: Any) -> Any:
        host, _, port = self.bootstrap.rpartition(":")
        with Client(host, int(port)) as client:
            return client.ask(key, version, **fields)


def play(stage: Stage) -> None:
    """Plays the groups that every coordinator serves."""
    range_group(stage)
    cooperative_group(stage)
    static_group(stage)
    expiring_offsets(stage)
    deleted_group(stage)


def play_on_broker(stage: Stage) -> None:
    """Also plays the groups that only a broker serves; the end of the log is compressed."""
    modern_group(stage)
    transactions(stage)
    range_group(stage)
    cooperative_group(stage)
    compress_from_now_on(stage)
    static_group(stage)
    expiring_offsets(stage)
    deleted_group(stage)


def range_group(stage: Stage) -> None:
    with stage.group(RANGE) as scene:
        (first,) = scene.start("confluent-kafka", "first")
        (second,) = scene.start("java", "second")
        (third,) = scene.start("kafka-python", "third", session_timeout_ms=SESSION_MS)
        join_one_by_one(scene, first, second, third)
        one_leaves_one_is_killed(scene, first, second, third)
        first.leave()
    topic = f"{RANGE}-records"
    stage.kcoord("offsets", "reset", RANGE, "--topic", topic, "--to", str(RESET_TO))
    stage.kcoord("offsets", "delete", RANGE, "--topic", f"{topic}:0")
    assert stage.committed(RANGE) == {(topic, index): RESET_TO for index in range(1, PARTITIONS)}


def cooperative_group(stage: Stage) -> None:
    with stage.group(COOPERATIVE) as scene:
        first, second = scene.start("confluent-kafka", "first", "second", assignor="cooperative-sticky")
        (third,) = scene.start("kafka-python", "third", assignor="cooperative-sticky", session_timeout_ms=SESSION_MS)
        join_one_by_one(scene, first, second, third)
        talk(stage)
        one_leaves_one_is_killed(scene, first, second, third)


def join_one_by_one(scene: GroupScene, *members: Member) -> None:
    for count, member in enumerate(members, start=1):
        member.join()
        scene.wait_until_stable(*members[:count])
        scene.wait_for_reads(member)


def one_leaves_one_is_killed(scene: GroupScene, staying: Member, leaving: Member, killed: Member) -> None:
    leaving.leave()
    scene.wait_until_stable(staying, killed)
    killed.kill()
    scene.wait_until_stable(staying)
    scene.conclude()


def static_group(stage: Stage) -> None:
    with stage.group(STATIC) as scene:
        leader, returned_leader = scene.start("confluent-kafka", "leader", "leader", instance_id="a")
        follower, returned_follower = scene.start("confluent-kafka", "follower", "follower", instance_id="b")
        leader.join()
        scene.wait_until_stable(leader)
        follower.join()
        both = scene.wait_until_stable(leader, follower)
        follower.leave()
        returned_follower.join()
        assert scene.wait_until_stable(leader, returned_follower) == both
        leader.kill()
        returned_leader.join()
        assert scene.wait_until_stable(returned_leader, returned_follower) == both
        scene.conclude()


def talk(stage: Stage) -> None:
    """Commits over a mebibyte."""
    for number in range(300):
        stage.commit(TALKATIVE, {(f"{COOPERATIVE}-records", 0): number}, text="x" * 4000)


def expiring_offsets(stage: Stage) -> None:
    line = {"partition_index": 0, "committed_offset": 8, "committed_metadata": "soon gone"}
    answer = stage.ask(
        ApiKey.OFFSET_COMMIT,
        VERSION_WITH_RETENTION,
        group_id=EXPIRING,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time=timedelta(milliseconds=100),
        topics=[{"name": f"{RANGE}-records", "partitions": [line]}],
    )
    assert not answer.topics[0].partitions[0].error_code, answer
    until(lambda: not stage.committed(EXPIRING))


def deleted_group(stage: Stage) -> None:
    stage.commit(DELETED, {(f"{RANGE}-records", index): 5 for index in range(PARTITIONS)}, text="ä note")
    stage.kcoord("groups", "delete", DELETED)
    assert not stage.committed(DELETED)


def modern_group(stage: Stage) -> None:
    with stage.group(MODERN) as scene:
        first, second = scene.start("confluent-kafka-848", "first", "second")

        def owns(*shares: int) -> None:
            """Waits by the members' reports: DescribeGroups does not cover such a group."""
            scene.wait_for(lambda: [len(member.owned) for member in (first, second)] == [*shares], "the shares")

        first.join()
        owns(PARTITIONS, 0)
        second.join()
        owns(PARTITIONS // 2, PARTITIONS // 2)
        scene.wait_for_reads(second)
        second.leave()
        owns(PARTITIONS, 0)
        scene.conclude()


def transactions(stage: Stage) -> None:
    """Runs two transactions. The second one begins when the markers of the first are written, and is visible with its
    own."""
    topic = f"{MODERN}-records"
    payment = {(topic, index): offset for index, offset in enumerate(PAYMENT)}
    stage.commit(UNPAID, {(topic, 1): UNPAID_OFFSET})
    producer = Producer({"bootstrap.servers": stage.bootstrap, "transactional.id": "payer"})
    producer.init_transactions(DEADLINE)
    for group, end in ((UNPAID, producer.abort_transaction), (PAID, producer.commit_transaction)):
        consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": group})
        producer.begin_transaction()
        offsets = [TopicPartition(*tp, offset) for tp, offset in payment.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE)
        end(DEADLINE)
        consumer.close()
    until(lambda: stage.committed(PAID) == payment)
    assert stage.committed(UNPAID) == {(topic, 1): UNPAID_OFFSET}


def compress_from_now_on(stage: Stage) -> None:
    configs = [{"name": "compression.type", "config_operation": SET, "value": "zstd"}]
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": "__consumer_offsets", "configs": configs}
    (answer,) = stage.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
    assert not answer.error_code, answer
