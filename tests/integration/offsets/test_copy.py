"""Offsets between two real clusters: with a good mirror they are copied; a shifted mirror and a running group are
refused.

The verdicts are the same through librdkafka, which reads records in another way.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kcoord.testing.cluster import Cluster

from ...support.admin.mirrored_scene import MINUTE, START, MirroredScene
from ...support.admin.offsets_scene import DEADLINE, OffsetsScene

THROUGH_LIBRDKAFKA = ("-X", "socket.nagle.disable=true")


@pytest.fixture(scope="module")
def both(kafka_cluster: Cluster, kafka_cluster_factory: Callable[..., Cluster]) -> tuple[OffsetsScene, OffsetsScene]:
    return OffsetsScene(kafka_cluster.bootstrap), OffsetsScene(kafka_cluster_factory().bootstrap)


@pytest.fixture
def mirrored(
    both: tuple[OffsetsScene, OffsetsScene],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MirroredScene:
    monkeypatch.chdir(tmp_path)
    return MirroredScene(*both, re.sub(r"\W+", "-", request.node.name)[-100:])


@pytest.mark.parametrize("options", [(), THROUGH_LIBRDKAFKA], ids=["wire", "librdkafka"])
@pytest.mark.parametrize("transfer", ["copy", "carry"])
def test_a_target_that_lacks_the_first_records_is_refused(
    mirrored: MirroredScene, transfer: str, options: tuple[str, ...]
) -> None:
    """The group has read 200 of 300 records, and the target has the last 200: at its end nothing would seem unread."""
    mirrored.make_topics(partitions=3)
    for partition in range(3):
        mirrored.write(mirrored.source, range(300), partition=partition)
        mirrored.write(mirrored.target, range(100, 300), partition=partition)
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, partition): 200 for partition in range(3)})

    run = getattr(mirrored, transfer)(group, "--execute", *options)

    assert run.exit_code == 1, run.stderr
    assert ("librdkafka" in run.stderr) == bool(options)
    assert f"{mirrored.topic} 0-2: the target has no record from 200 on and the source has 100 to read" in run.stderr
    assert run.stdout.count("2023-11-15 01:33:20.000Z") == run.stdout.count("2023-11-15 03:12:20.000Z") == 3
    assert mirrored.target.offsets(group) == {}


@pytest.mark.parametrize("options", [(), THROUGH_LIBRDKAFKA], ids=["wire", "librdkafka"])
@pytest.mark.parametrize("transfer", ["copy", "carry"])
def test_a_good_mirror_goes_through_and_one_shifted_by_a_record_does_not(
    mirrored: MirroredScene, transfer: str, options: tuple[str, ...]
) -> None:
    """The partitions are read, half read and unread."""
    mirrored.make_topics(partitions=3)
    offsets = {(mirrored.topic, 0): 100, (mirrored.topic, 1): 50, (mirrored.topic, 2): 0}
    for partition in range(3):
        mirrored.write(mirrored.source, range(100), partition=partition)
        mirrored.write(mirrored.target, range(100), partition=partition, mirrored=True)
    good, shifted = f"{mirrored.topic}-good", f"{mirrored.topic}-shifted"
    mirrored.source.commit(good, offsets)
    move = getattr(mirrored, transfer)

    done = move(good, "--execute", *options)

    assert done.exit_code == 0, done.stderr
    assert mirrored.target.offsets(good) == offsets
    extra = MirroredScene(mirrored.source, mirrored.target, shifted)
    extra.make_topics()
    extra.write(extra.source, range(100))
    extra.write(extra.target, [0, *range(100)])
    extra.source.commit(shifted, {(shifted, 0): 50})
    refused = move(shifted, "--execute", *options)
    assert refused.exit_code == 1
    assert "records would be read again. If that is meant, say --accept-different-records" in refused.stderr
    assert extra.target.offsets(shifted) == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_running_source_group_is_refused(mirrored: MirroredScene, protocol: str) -> None:
    mirrored.make_topics()
    for scene in (mirrored.source, mirrored.target):
        mirrored.write(scene, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 4})

    with mirrored.source.member(group, mirrored.topic, protocol):
        run = mirrored.copy(group, "--execute")

    assert run.exit_code == 1
    assert "it has members where its offsets come from" in run.stderr
    assert mirrored.target.offsets(group) == {}
    assert mirrored.copy(group, "--execute").exit_code == 0, "once they are stopped"


@pytest.mark.parametrize("offset", [10, 11])
def test_markers_of_transactions_are_looked_over(mirrored: MirroredScene, offset: int) -> None:
    """The source has ten records and a marker, which the target lacks. Some consumers commit 10 there, others 11.

    10 is right in the target, too. 11 is behind its end.
    """
    mirrored.make_topics()
    producer = Producer({"bootstrap.servers": mirrored.source.bootstrap, "transactional.id": mirrored.topic})
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    for number in range(10):
        key, value = str(number).encode(), f"order {number}".encode()
        producer.produce(mirrored.topic, value, key=key, partition=0, timestamp=START + number * MINUTE)
    producer.commit_transaction(DEADLINE)
    mirrored.source.wait_for_end(mirrored.topic, 0, 11)
    mirrored.write(mirrored.target, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): offset})

    run = mirrored.copy(group, "--execute")

    if offset == 10:
        assert run.exit_code == 0, run.stderr
    else:
        assert (run.exit_code, "11 is after the end of the log, 10" in run.stderr) == (1, True)
        assert mirrored.copy(group, "--execute", "--accept-clamped-offsets").exit_code == 0, "the records are the same"
    assert mirrored.target.offsets(group) == {(mirrored.topic, 0): 10}


def test_a_target_that_stamps_records_itself_is_compared_by_contents(mirrored: MirroredScene) -> None:
    mirrored.make_topics(target_settings={"message.timestamp.type": "LogAppendTime"})
    for scene in (mirrored.source, mirrored.target):
        mirrored.write(scene, range(10))
    group = mirrored.topic
    mirrored.source.commit(group, {(mirrored.topic, 0): 4})

    run = mirrored.copy(group, "--execute")

    assert run.exit_code == 0, run.stderr
    assert "partly-compared" in run.stdout
