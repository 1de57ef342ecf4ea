"""The admin client through librdkafka, compared with our own connections to the same real Kafka."""

import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kcoord.admin.connecting.client_settings import BadConnection
from kcoord.admin.connecting.connection import Connection
from kcoord.admin.librdkafka.cluster import LibrdkafkaCluster
from kcoord.admin.model import Answers, Committed, Group, GroupType, Member, MemberToRemove, TopicPartition
from kcoord.admin.record_marks import RecordMark, checksum_of
from kcoord.admin.wire.cluster import WireCluster
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.client.connect_errors import LoginFailed, NoAnswer, TlsFailed, Unreachable
from kcoord.client.secret import Secret
from kcoord.errors import ErrorCode
from kcoord.protocol.records.record import Record
from tests.support.admin.fake_cluster import LiveFixture
from tests.support.admin.group_kinds import create_topic

if TYPE_CHECKING:
    from kcoord.testing.cluster import Cluster
    from kcoord.testing.embedded import EmbeddedCluster

PATIENCE = 60.0
FIRST_TIME = 1_700_000_000_000
LONG = timedelta(seconds=60)


def connection(
    bootstrap: str, settings: Mapping[str, str | Secret] | None = None, *, timeout: float = PATIENCE
) -> Connection:
    librdkafka = {"bootstrap.servers": bootstrap, **(settings or {})}
    return Connection(bootstrap=tuple(bootstrap.split(",")), request_timeout=timeout, librdkafka=librdkafka)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One cluster, both clients, and its topics and groups. Names are unique: the cluster is shared."""

    ours: WireCluster
    theirs: LibrdkafkaCluster
    name: str

    @property
    def topic(self) -> str:
        return f"{self.name}-orders"

    def group(self, word: str) -> str:
        return f"{self.name}-{word}"

    def tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)


@pytest.fixture(scope="module")
def scene(kafka_cluster: "Cluster") -> Iterator[Scene]:
    bootstrap = kafka_cluster.bootstrap
    target = connection(bootstrap)
    scene = Scene(ours=WireCluster(target), theirs=LibrdkafkaCluster(target), name=f"librdkafka-{uuid.uuid4().hex[:8]}")
    _produce(bootstrap, scene.topic)
    host, _, port = bootstrap.rpartition(":")
    classic = _consumer(bootstrap, scene, "classic", {"group.instance.id": "instance-1"})
    planned = _consumer(bootstrap, scene, "planned", {"group.protocol": "consumer"})
    _consumer(bootstrap, scene, "empty", {}).close()
    with Client(host, int(port)) as client:
        _join_connect(client, scene.group("connect"))
        _join_share(client, scene)
        yield scene
    classic.close()
    planned.close()
    scene.theirs.close()
    scene.ours.close()


def _produce(bootstrap: str, topic: str) -> None:
    """Writes ten records to each of three partitions, a second apart."""
    from confluent_kafka import Producer, admin

    theirs: Any = admin
    client = theirs.AdminClient({"bootstrap.servers": bootstrap})  # must stay referenced until done
    client.create_topics([theirs.NewTopic(topic, 3, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce(topic, b"v", partition=number % 3, timestamp=FIRST_TIME + 1000 * (number // 3))
    assert producer.flush(PATIENCE) == 0


def _consumer(bootstrap: str, scene: Scene, word: str, settings: dict[str, str]) -> Any:
    """Joins a consumer, which commits three records of each partition."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as TheirPartition

    configuration = {"bootstrap.servers": bootstrap, "group.id": scene.group(word), "enable.auto.commit": "false"}
    consumer = Consumer({**configuration, **settings})
    consumer.subscribe([scene.topic])
    for _ in range(int(PATIENCE / 0.5)):
        consumer.poll(0.5)
        if len(consumer.assignment()) == 3:
            break
    offsets = [TheirPartition(scene.topic, partition, 3) for partition in range(3)]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


def _join_connect(client: Client, group: str) -> None:
    protocols = [{"name": "sessioned", "metadata": b"\x00\xff"}]
    asked = {"group_id": group, "session_timeout": LONG, "rebalance_timeout": LONG, "protocol_type": "connect"}
    joined = client.ask(ApiKey.JOIN_GROUP, 3, member_id="", protocols=protocols, **asked)
    assignments = [{"member_id": joined.member_id, "assignment": b"opaque"}]
    synced = client.ask(
        ApiKey.SYNC_GROUP,
        3,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
    )
    assert synced.error_code is ErrorCode.none


def _join_share(client: Client, scene: Scene) -> None:
    joined = client.ask(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        group_id=scene.group("share"),
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        subscribed_topic_names=[scene.topic],
    )
    assert joined.error_code is ErrorCode.none


def without_unreported(group: Group) -> Group:
    """Removes what librdkafka does not report of groups whose coordinator plans."""
    if group.type is GroupType.CLASSIC:
        return group
    members = tuple(map(_member_without_unreported, group.members))
    return replace(group, epoch=None, assignment_epoch=None, members=members)


def _member_without_unreported(member: Member) -> Member:
    return replace(member, subscription=None, epoch=None, is_classic=None)


def same(ours: Answers[Any, Any], theirs: Answers[Any, Any]) -> bool:
    """Asserts that both found the same, and refused as much for the same reasons."""
    errors = [sorted(refusal.error.name for refusal in answers.refused) for answers in (ours, theirs)]
    return ours.found == theirs.found and errors[0] == errors[1]


def test_the_cluster_is_the_same(scene: Scene) -> None:
    assert scene.theirs.cluster_id() == scene.ours.cluster_id()
    assert scene.theirs.nodes() == scene.ours.nodes()


def test_topics_are_the_same_and_one_that_is_not_there_is_refused(scene: Scene) -> None:
    names = [scene.topic, "__consumer_offsets", "nowhere"]
    theirs = scene.theirs.topics(names)
    assert theirs.found.keys() == {scene.topic, "__consumer_offsets"}
    assert same(scene.ours.topics(names), theirs)
    assert theirs.refused[0].error is ErrorCode.unknown_topic_or_partition
    assert scene.theirs.topics().found[scene.topic] == scene.ours.topics().found[scene.topic]
    assert "nowhere" not in scene.ours.topics().found, "asking makes no topics"


def test_groups_of_consumers_and_of_others_are_listed(scene: Scene) -> None:
    ours, theirs = (
        {name: group for name, group in cluster.list_groups().found.items() if name.startswith(scene.name)}
        for cluster in (scene.ours, scene.theirs)
    )
    share = scene.group("share")
    assert len(ours) == 5
    assert theirs.keys() == ours.keys()
    assert {name: theirs[name] for name in ours if name != share} == {
        name: group for name, group in ours.items() if name != share
    }
    assert theirs[share].type is GroupType.UNKNOWN
    assert theirs[share].coordinator == ours[share].coordinator


@pytest.mark.parametrize(
    ("states", "types", "words"),
    [
        (["Empty"], [], {"empty"}),
        (["stable"], ["classic"], {"classic", "connect"}),
        ([], ["consumer"], {"planned"}),
        ([], ["consumer", "classic"], {"planned", "classic", "connect", "empty"}),
    ],
)
def test_listed_groups_are_filtered(scene: Scene, states: list[str], types: list[str], words: set[str]) -> None:
    found = scene.theirs.list_groups(states=states, types=types).found
    assert {name for name in found if name.startswith(scene.name)} == set(map(scene.group, words))


def test_described_groups_are_the_same(scene: Scene) -> None:
    names = [scene.group(word) for word in ("classic", "planned", "empty", "connect")]
    ours, theirs = scene.ours.describe_groups(names), scene.theirs.describe_groups(names)
    assert not theirs.refused
    assert theirs.found == {name: without_unreported(group) for name, group in ours.found.items()}
    (static,) = theirs.found[scene.group("classic")].members
    assert (static.instance_id, static.subscription) == ("instance-1", (scene.topic,))
    assert static.assignment == tuple(map(scene.tp, range(3)))
    (planned,) = theirs.found[scene.group("planned")].members
    assert planned.target == planned.assignment == tuple(map(scene.tp, range(3)))
    (worker,) = theirs.found[scene.group("connect")].members
    assert worker.assignment is None


def test_more_groups_than_a_few_are_described_at_once(scene: Scene) -> None:
    names = [scene.group(word) for word in ("classic", "planned", "empty", "connect", "a", "b", "c")]
    theirs = scene.theirs.describe_groups(names)
    assert theirs.found.keys() == set(names[:4])
    assert {(refusal.what, refusal.error) for refusal in theirs.refused} == {
        (f"group {name}", ErrorCode.group_id_not_found) for name in names[4:]
    }


def test_a_share_group_is_refused_in_words(scene: Scene) -> None:
    answers = scene.theirs.describe_groups([scene.group("share")])
    assert not answers.found
    (refusal,) = answers.refused
    assert refusal.error is ErrorCode.unsupported_version
    assert str(refusal).endswith("(librdkafka does not tell of groups of this type)")


def test_what_groups_have_committed_is_the_same_but_for_metadata(scene: Scene) -> None:
    """confluent-kafka reads metadata beyond its end."""
    noted = scene.group("noted")
    assert not scene.ours.commit(noted, {scene.tp(0): Committed(4, 0, "a note"), scene.tp(2): Committed(5)}).refused
    names = [scene.group(word) for word in ("classic", "planned", "empty", "nobody")]
    assert same(scene.ours.committed(names), scene.theirs.committed(names))
    theirs = scene.theirs.committed([noted, *names])
    assert theirs.found[noted] == {scene.tp(0): (4, 0, "", None), scene.tp(2): (5, -1, "", None)}
    assert theirs.found[scene.group("planned")][scene.tp(2)].offset == 3
    assert theirs.found[scene.group("nobody")] == {}
    assert scene.theirs.delete_groups([noted]) == Answers(found={noted: ErrorCode.none})


def test_bounds_and_offsets_by_time_are_the_same(scene: Scene) -> None:
    partitions = [scene.tp(0), scene.tp(2), scene.tp(77), TopicPartition("nowhere", 0)]
    theirs = scene.theirs.bounds(partitions)
    assert theirs.found == {scene.tp(0): (0, 10), scene.tp(2): (0, 10)}
    assert theirs.found == scene.ours.bounds(partitions).found
    assert {refusal.error for refusal in theirs.refused} == {ErrorCode.unknown_topic_or_partition}
    times = {scene.tp(0): FIRST_TIME + 3500, scene.tp(1): FIRST_TIME - 1, scene.tp(2): FIRST_TIME + 10**9}
    found = scene.theirs.offsets_at(times)
    assert same(scene.ours.offsets_at(times), found)
    assert found.found[scene.tp(0)][:2] == (4, FIRST_TIME + 4000)
    assert found.found[scene.tp(2)] == (-1, -1, -1)


def test_the_times_of_records_are_read_without_joining(scene: Scene) -> None:
    """There is no record at the end of a log. Several offsets of one partition are read, and some out of range."""
    positions = [(scene.tp(0), 0), (scene.tp(0), 7), (scene.tp(1), 3), (scene.tp(2), 10)]
    theirs = scene.theirs.timestamps(positions)
    assert theirs.found == {
        (scene.tp(0), 0): FIRST_TIME,
        (scene.tp(0), 7): FIRST_TIME + 7000,
        (scene.tp(1), 3): FIRST_TIME + 3000,
    }
    assert same(scene.ours.timestamps(positions), theirs)
    beyond = [(scene.tp(0), 11), (scene.tp(1), 9)]
    answers = scene.theirs.timestamps(beyond)
    assert same(scene.ours.timestamps(beyond), answers)
    assert [refusal.error for refusal in answers.refused] == [ErrorCode.offset_out_of_range]
    assert "kcoord" not in scene.ours.list_groups().found


def test_the_marks_of_records_are_the_same_for_null_and_empty_keys_and_values(
    scene: Scene, kafka_cluster: "Cluster"
) -> None:
    parts: list[tuple[bytes | None, bytes | None]]
    parts = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"k", b"v")]
    tp = TopicPartition(f"{scene.name}-marks", 0)
    host, _, port = kafka_cluster.bootstrap.rpartition(":")
    with Client(host, int(port)) as client:
        create_topic(client, tp.topic, 1)
    headers = (("__mirrored", b"yes"),)
    with LiveFixture(kafka_cluster.bootstrap) as live:
        for key, value in parts:
            live.produce(tp, [Record(timestamp=FIRST_TIME, key=key, value=value, headers=headers)])
    positions = [(tp, offset) for offset in range(len(parts))]

    theirs = scene.theirs.record_marks(positions)

    assert same(scene.ours.record_marks(positions), theirs)
    assert theirs.found[(tp, 4)] == RecordMark(offset=4, timestamp=FIRST_TIME, checksum=checksum_of(b"k", b"v"))
    assert len({mark.checksum for mark in theirs.found.values()}) == len(parts)


def test_the_times_of_a_topic_that_is_not_there_are_refused(scene: Scene) -> None:
    answers = scene.theirs.timestamps([(TopicPartition("nowhere", 0), 0)])
    assert [refusal.error for refusal in answers.refused] == [ErrorCode.unknown_topic_or_partition]


def test_settings_of_topics_and_groups_are_the_same(scene: Scene) -> None:
    names = [scene.topic, "nowhere"]
    theirs = scene.theirs.topic_configs(names)
    assert same(scene.ours.topic_configs(names), theirs)
    assert theirs.found[scene.topic]["cleanup.policy"] == "delete"
    planned = [scene.group("planned")]
    groups = scene.theirs.group_configs(planned)
    assert same(scene.ours.group_configs(planned), groups)
    assert "consumer.session.timeout.ms" in groups.found[scene.group("planned")]


def test_a_commit_is_made_for_a_group_without_members(scene: Scene) -> None:
    group = scene.group("made")
    offsets = {scene.tp(0): Committed(4, 0), scene.tp(1): Committed(9)}
    done = scene.theirs.commit(group, offsets)
    assert done == Answers(found=dict.fromkeys(offsets, ErrorCode.none))
    assert scene.ours.committed([group]).found[group] == offsets
    assert scene.theirs.committed([group]).found[group] == offsets
    partly = {TopicPartition("nowhere", 0): Committed(1), scene.tp(0): Committed(5)}
    assert same(scene.ours.commit(group, partly), scene.theirs.commit(group, partly))
    assert scene.theirs.delete_groups([group]) == Answers(found={group: ErrorCode.none})


def test_a_commit_that_confluent_kafka_would_spoil_is_refused_whole(scene: Scene) -> None:
    """confluent-kafka adds a NUL to metadata, so that it would differ from the request."""
    group = scene.group("noted")
    done = scene.theirs.commit(group, {scene.tp(0): Committed(4), scene.tp(1): Committed(4, -1, "a note")})
    assert set(done.found.values()) == {ErrorCode.unsupported_version}
    assert "NUL" in str(done.refused[0])
    assert scene.ours.committed([group]).found[group] == {}


@pytest.mark.parametrize("word", ["classic", "planned"])
def test_the_broker_refuses_a_commit_when_there_are_members(scene: Scene, word: str) -> None:
    group = scene.group(word)
    before = scene.ours.committed([group])
    done = scene.theirs.commit(group, {scene.tp(0): Committed(9)})
    assert done.found == {scene.tp(0): ErrorCode.unknown_member_id}
    assert len(done.refused) == 1
    assert scene.ours.committed([group]) == before


def test_groups_are_deleted_or_refused_as_over_our_own_connections(scene: Scene) -> None:
    names = [scene.group("classic"), scene.group("nobody")]
    theirs = scene.theirs.delete_groups(names)
    assert same(scene.ours.delete_groups(names), theirs)
    assert list(theirs.found.values()) == [ErrorCode.non_empty_group, ErrorCode.group_id_not_found]


def test_what_confluent_kafka_cannot_do_is_refused_and_not_done(scene: Scene) -> None:
    group = scene.group("empty")
    before = scene.ours.committed([group])
    deleted = scene.theirs.delete_offsets(group, [scene.tp(0)])
    removed = scene.theirs.remove_members(
        scene.group("classic"), [MemberToRemove(instance_id="instance-1")], reason="test"
    )
    assert set(deleted.found.values()) == set(removed.found.values()) == {ErrorCode.unsupported_version}
    assert "cannot delete offsets" in str(deleted.refused[0])
    assert "cannot remove members" in str(removed.refused[0])
    assert scene.ours.committed([group]) == before
    assert len(scene.ours.describe_groups([scene.group("classic")]).found[scene.group("classic")].members) == 1


# Failed connections


def printed(capfd: pytest.CaptureFixture[str], address: str) -> list[str]:
    """Returns the output of this process, without lines about other tests' brokers from clients that still run."""
    captured = capfd.readouterr()
    lines = (captured.out + captured.err).splitlines()
    return [line for line in lines if "[thrd:127.0.0.1:" not in line or address in line]


def test_an_unreachable_broker_is_one_line_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"^{address}: Connect to .* failed: Connection refused; check") as raised:
            LibrdkafkaCluster(connection(address))
    assert "\n" not in str(raised.value)
    assert not printed(capfd, address)


def test_an_unknown_host_is_one_line_at_once() -> None:
    with pytest.raises(Unreachable, match=r"nowhere\.invalid:9092: Failed to resolve .*; check the name of the host"):
        LibrdkafkaCluster(connection("nowhere.invalid:9092"))


def test_a_broker_that_never_answers_is_given_up_after_the_request_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(NoAnswer, match=rf"^{address}: no broker has answered within 1\.5 s$"):
            LibrdkafkaCluster(connection(address, timeout=1.5))


def test_a_login_that_fails_is_one_line_without_the_password(
    kcoord_cluster: "EmbeddedCluster", capfd: pytest.CaptureFixture[str]
) -> None:
    target = connection(
        kcoord_cluster.bootstrap,
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": Secret("hush-hush"),
        },
    )
    with pytest.raises(LoginFailed, match=f"^{kcoord_cluster.bootstrap}: .*SASL.*; check the user") as raised:
        LibrdkafkaCluster(target)
    assert "hush-hush" not in str(raised.value)
    assert not printed(capfd, kcoord_cluster.bootstrap)


def test_tls_to_a_broker_without_it_is_one_line(kcoord_cluster: "EmbeddedCluster") -> None:
    with pytest.raises((TlsFailed, Unreachable), match=r"SSL connection closed by peer.*; check .*security[.]protocol"):
        LibrdkafkaCluster(connection(kcoord_cluster.bootstrap, {"security.protocol": "SSL"}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"no.such.setting": "1"}, 'No such configuration property: "no.such.setting"'),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "MAGIC"}, "Unsupported SASL mechanism: MAGIC"),
        ({"security.protocol": "SSL", "ssl.key.pem": Secret("hush-hush")}, "ssl.key.pem failed"),
    ],
)
def test_settings_that_librdkafka_cannot_use_are_one_line(settings: dict[str, str | Secret], message: str) -> None:
    with pytest.raises(BadConnection, match=r"^librdkafka cannot use these settings: ") as raised:
        LibrdkafkaCluster(connection("127.0.0.1:9092", settings))
    assert message in str(raised.value)
    assert "hush-hush" not in str(raised.value)


@pytest.fixture(scope="module")
def timeless(kcoord_cluster_factory: Callable[..., "EmbeddedCluster"]) -> str:
    """A cluster whose only partition has a record without a time, and one with it."""
    cluster = kcoord_cluster_factory(topics={"orders": 1})
    with LiveFixture(cluster.bootstrap) as live:
        live.produce(TopicPartition("orders", 0), [Record(timestamp=-1)], [Record(timestamp=FIRST_TIME)])
    return cluster.bootstrap


def test_a_record_without_a_time_is_left_out(timeless: str) -> None:
    positions = [(TopicPartition("orders", 0), offset) for offset in (0, 1)]
    for cluster in (WireCluster(connection(timeless)), LibrdkafkaCluster(connection(timeless))):
        with closing(cluster):
            assert cluster.timestamps(positions) == Answers(found={positions[1]: FIRST_TIME})


def test_settings_that_only_a_consumer_cannot_use_are_one_line_without_secrets(timeless: str) -> None:
    """librdkafka's message contains the password."""
    settings: dict[str, str | Secret] = {
        "session.timeout.ms": "400000",
        "sasl.password": Secret("max.poll.interval.ms"),
    }
    with (
        closing(LibrdkafkaCluster(connection(timeless, settings))) as cluster,
        pytest.raises(BadConnection, match=r"^librdkafka cannot use these settings: .*session.timeout.ms") as raised,
    ):
        cluster.timestamps([(TopicPartition("orders", 0), 0)])
    assert "`***`" in str(raised.value)
    assert "max.poll.interval.ms" not in str(raised.value)
