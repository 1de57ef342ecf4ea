"""The data folder: its identity, its lock, and the topics that a start finds in it."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest

from kcoord.broker.cluster import Cluster, Node, NodeId
from kcoord.broker.log.batch_validation import LogSettings
from kcoord.broker.log.partition_log import Appended, Refused
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import Batch, produced_batch
from kcoord.protocol.records.record import ProducerStamp, Record, write_batch
from kcoord.protocol.uuids import format_uuid
from kcoord.settings import Settings
from kcoord.storage.data_dir import BadDataDir, DataDir
from kcoord.storage.log_dir import read_topic_id
from kcoord.storage.topic_discovery import load_topics
from kcoord.storage.topics_file import NAME
from tests.storage.failing_filesystem import Crash, FailingFilesystem, open_files_of
from tests.support.logs.appending import append_at_once, offset_for_timestamp, offset_of_max_timestamp

now_ms = 1_800_000_000_000
_ids = count(1)


def batch(producer: int = -1) -> Batch:
    stamp = ProducerStamp(id=producer, epoch=0, base_sequence=0) if producer >= 0 else ProducerStamp()
    return produced_batch(write_batch([Record(timestamp=now_ms, value=b"v")], producer=stamp))


class Server:
    """The part of a server that uses its data folder."""

    def __init__(
        self, folder: Path, *, nodes: int = 1, fsync: bool = False, filesystem: FailingFilesystem | None = None
    ) -> None:
        self.data_dir = DataDir(
            folder, fresh_cluster_id=lambda: "fresh", most_files=20, is_synced=fsync, filesystem=filesystem
        )
        self.cluster = Cluster(
            cluster_id=self.data_dir.cluster_id,
            nodes=[Node(node_id=NodeId(number), host="h", port=number) for number in range(1, nodes + 1)],
            settings=Settings(),
            fresh_id=_fresh_id,
            storage=self.data_dir,
        )
        try:
            load_topics(self.cluster, self.data_dir, _fresh_id, now_ms)
        except BaseException:
            self.cluster.close()
            raise

    def create(self, name: str, partitions: int = 1, overrides: dict[str, str] | None = None) -> None:
        self.cluster.create_topic(name, self.cluster.assign_replicas(0, partitions, 1), overrides or {}, now_ms)

    def append(self, topic: str, index: int = 0, producer: int = -1) -> int:
        outcome = append_at_once(self.cluster.topics[topic].partitions[index].log, batch(producer), now_ms)
        assert isinstance(outcome, Appended)
        return outcome.base_offset

    def ends(self) -> dict[str, list[int]]:
        return {
            topic.name: [partition.log.end_offset for partition in topic.partitions]
            for topic in self.cluster.topics.values()
        }

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()


def _fresh_id() -> UUID:
    return UUID(int=next(_ids))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    assert open_files_of(tmp_path) == 0


def folders_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


# The folder itself


def test_a_new_folder_gets_a_cluster_id_and_keeps_it(folder: Path) -> None:
    with Server(folder / "deep") as server:
        assert (server.cluster.cluster_id, server.data_dir.node_id) == ("fresh", 1)
    (folder / "deep" / "meta.properties").write_text("#\n#Mon\nnode.id=4\nversion=1\ncluster.id=theirs\n")
    with Server(folder / "deep") as server:
        assert (server.cluster.cluster_id, server.data_dir.node_id) == ("theirs", 4)


def test_a_folder_is_used_by_one_process_at_a_time(folder: Path) -> None:
    with Server(folder), pytest.raises(BadDataDir, match=f"{folder} is in use by another process"):
        Server(folder)
    Server(folder).cluster.close()


def test_a_broker_keeps_us_out_by_its_own_kind_of_lock(folder: Path) -> None:
    Server(folder).cluster.close()
    hold = (
        "import fcntl, sys; lock = open(sys.argv[1], 'r+'); fcntl.lockf(lock, fcntl.LOCK_EX)\n"
        "print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(folder / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(BadDataDir, match="in use by another process"):
            Server(folder)
        other.communicate(b"\n")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("meta.properties", "version=1\n", "meta.properties: cluster.id or node.id is missing"),
        ("meta.properties", "cluster.id=c\nnode.id=one\n", "meta.properties: cluster.id or node.id is missing"),
        (NAME, "what?\n", f"{NAME}: line 1 is not what kcoord writes"),
        ("log-start-offset-checkpoint", "0\n2\nt 0 5\n", "does not begin with version 0 and the number of its lines"),
        ("log-start-offset-checkpoint", "0\n1\nt 5\n", "'t 5' is not a topic, a partition and an offset"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_named(folder: Path, name: str, content: str, why: str) -> None:
    Server(folder).cluster.close()
    (folder / name).write_text(content)
    with pytest.raises(BadDataDir, match=why):
        Server(folder)


def test_what_is_no_folder_is_said_to_be_none(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(BadDataDir, match=f"{folder} is not a folder"):
        Server(folder)
    with pytest.raises(BadDataDir, match=f"cannot use {folder / 'below'}: Not a directory"):
        Server(folder / "below")


def test_a_full_disk_at_the_start_is_one_line(folder: Path) -> None:
    system = FailingFilesystem()
    system.room = 0
    with pytest.raises(BadDataDir, match=f"cannot use {folder}: No space left on device"):
        Server(folder, filesystem=system)


# Topics


def test_topics_are_found_as_they_were(folder: Path) -> None:
    with Server(folder) as server:
        server.create("orders", 3, {"retention.ms": "77"})
        topic_id = server.cluster.topics["orders"].topic_id
        server.cluster.add_partitions(server.cluster.topics["orders"], [[NodeId(1)]], now_ms)
        server.cluster.configure(server.cluster.topics["orders"], {"retention.bytes": "5"})
        assert [server.append("orders", 2) for _ in range(2)] == [0, 1]
    with Server(folder) as server:
        topic = server.cluster.topics["orders"]
        assert (topic.topic_id, topic.overrides) == (topic_id, {"retention.bytes": "5"})
        assert server.ends() == {"orders": [0, 0, 2, 0]}
        assert topic.partitions[3].log.settings.retention_bytes == 5
        assert server.cluster.held_bytes == 2 * batch().header.size
        assert (server.cluster.partition_count, server.cluster.topic_by_id(topic_id)) == (4, topic)
    assert read_topic_id(folder / "orders-3") == topic_id


def test_a_deleted_topic_is_gone_with_its_folders_and_its_name_is_free(folder: Path) -> None:
    with Server(folder) as server:
        server.create("orders", 2)
        server.append("orders")
        server.cluster.topics["orders"].partitions[0].log.delete_records(1, now_ms)
        server.cluster.delete_topic(server.cluster.topics["orders"])
        assert folders_in(folder) == []
        server.create("orders", 1)
        server.append("orders")
    with Server(folder) as server:
        assert (server.ends(), folders_in(folder)) == ({"orders": [1]}, ["orders-0"])
        assert server.cluster.topics["orders"].partitions[0].log.start_offset == 0


def test_the_start_offset_of_deleted_records_is_found_again(folder: Path) -> None:
    with Server(folder) as server:
        server.create("a-b.c", 2)
        for _ in range(3):
            server.append("a-b.c", 1)
        server.cluster.topics["a-b.c"].partitions[1].log.delete_records(2, now_ms)
    assert (folder / "log-start-offset-checkpoint").read_text() == "0\n1\na-b.c 1 2\n"
    with Server(folder) as server:
        assert server.cluster.topics["a-b.c"].partitions[1].log.start_offset == 2


def test_producer_ids_are_never_given_twice(folder: Path) -> None:
    given: list[int] = []
    for _ in range(3):
        with Server(folder) as server:
            given += [server.cluster.next_producer_id() for _ in range(1500)]
    assert len(set(given)) == len(given)
    with Server(folder) as server:
        server.create("t")
        server.append("t", producer=123_456)
    (folder / NAME).unlink()
    with Server(folder) as server:
        assert server.cluster.next_producer_id() == 124_000


def test_leftovers_of_deletions_go(folder: Path) -> None:
    Server(folder).cluster.close()
    (folder / "t-0.a3e685dbeddc4baa9770f0352634f037-delete").mkdir()
    (folder / "t-0.a3e685dbeddc4baa9770f0352634f037-delete" / "00000000000000000000.log").touch()
    with Server(folder) as server:
        assert (server.ends(), folders_in(folder)) == ({}, [])


def test_a_crash_at_any_step_of_making_a_topic_leaves_all_of_it_or_none(folder: Path) -> None:
    outcomes = []
    for step in range(100):
        data = folder / str(step)
        with Server(data) as server:
            server.create("before")
        system = FailingFilesystem()
        with Server(data, filesystem=system) as server:
            system._crash_at = system.changes + step
            try:
                server.create("orders", 3)
            except Crash:
                system._crash_at = None
            else:
                break
        with Server(data) as server:
            outcomes.append(server.ends())
    assert [ends for ends in outcomes if ends not in ({"before": [0]}, {"before": [0], "orders": [0, 0, 0]})] == []
    assert len(outcomes) > 6


def test_a_crash_at_any_step_of_deleting_a_topic_leaves_all_of_it_or_none(folder: Path) -> None:
    outcomes = []
    for step in range(100):
        data = folder / str(step)
        system = FailingFilesystem()
        with Server(data, filesystem=system) as server:
            server.create("orders", 2)
            server.append("orders", 0)
            server.append("orders", 1)
            system._crash_at = system.changes + step
            try:
                server.cluster.delete_topic(server.cluster.topics["orders"])
            except Crash:
                system._crash_at = None
            else:
                break
        with Server(data) as server:
            outcomes.append((server.ends(), folders_in(data)))
    assert outcomes[0] == ({"orders": [1, 1]}, ["orders-0", "orders-1"])
    assert set(map(str, outcomes[1:])) == {str(({}, []))}
    assert len(outcomes) > 4


def test_a_topic_for_which_there_is_no_room_is_not_made(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    system = FailingFilesystem()
    with Server(folder, filesystem=system) as server:
        for room in range(5):  # A line of the file of topics; for each partition a folder and its metadata.
            system.room = room
            with pytest.raises(OSError, match="No space"):
                server.create("orders", 2)
            system.room = None
            assert (server.ends(), folders_in(folder)) == ({}, [])
            assert (folder / NAME).read_text().count("orders") == 0
        server.create("orders", 1)
        system.room = 2
        with pytest.raises(OSError, match="No space"):
            server.cluster.add_partitions(server.cluster.topics["orders"], [[NodeId(1)]], now_ms)
        system.room = None
        assert (server.ends(), folders_in(folder)) == ({"orders": [0]}, ["orders-0"])
    with Server(folder) as server:
        assert server.ends() == {"orders": [0]}


# The disk


def test_with_fsync_a_topic_and_its_records_wait_for_the_disk(folder: Path) -> None:
    system = FailingFilesystem()
    with Server(folder, fsync=True, filesystem=system) as server:
        server.create("t")
        server.append("t")
        system.synced.clear()
        system.synced_folders.clear()
        server.cluster.storage.sync()
        assert {NAME, "00000000000000000000.log"} <= set(system.synced)
        assert set(system.synced_folders) == {folder.name, "t-0"}
        server.append("t")
        system.synced.clear()
        server.cluster.storage.sync()
        assert system.synced == ["00000000000000000000.log"]


def test_a_log_whose_file_could_not_be_synced_takes_nothing_more(folder: Path) -> None:
    system = FailingFilesystem()
    with Server(folder, fsync=True, filesystem=system) as server:
        server.create("t", 2)
        server.cluster.storage.sync()
        server.append("t", 0)
        system.cannot_sync = True
        with pytest.raises(OSError, match="Input/output"):
            server.cluster.storage.sync()
        system.cannot_sync = False
        refused = append_at_once(server.cluster.topics["t"].partitions[0].log, batch(), now_ms)
        assert isinstance(refused, Refused)
        assert refused.error is ErrorCode.kafka_storage_error
        assert server.append("t", 1) == 0
        server.cluster.storage.sync()


# Folders with missing, damaged or foreign contents


def test_a_damaged_log_fails_and_nothing_else(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Server(folder) as server:
        server.create("orders", 2)
        for _ in range(3):
            server.append("orders", 0)
            server.append("orders", 1)
    segment = folder / "orders-0" / "00000000000000000000.log"
    damaged = bytearray(segment.read_bytes())
    damaged[30] ^= 1
    segment.write_bytes(damaged)
    with Server(folder) as server:
        failed, sound = (partition.log for partition in server.cluster.topics["orders"].partitions)
        assert (failed.is_failed, sound.is_failed, sound.end_offset) == (True, False, 3)
        appended = append_at_once(failed, batch(), now_ms)
        for refused in (appended, failed.read(0, max_bytes=9), failed.delete_records(0, now_ms)):
            assert isinstance(refused, Refused)
            assert refused.error is ErrorCode.kafka_storage_error
        with pytest.raises(OSError, match="The log has failed"):
            offset_for_timestamp(failed, 0)
        with pytest.raises(OSError, match="The log has failed"):
            offset_of_max_timestamp(failed)
        failed.settings = LogSettings(retention_ms=1)
        assert failed.enforce_retention(now_ms * 2) == 0
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(errors) == 1
        assert errors[0].startswith(f"log failed log=orders-0 why='{segment} at byte 0: no sound batch")
        assert segment.read_bytes() == bytes(damaged)
        server.cluster.delete_topic(server.cluster.topics["orders"])
        assert folders_in(folder) == []


def test_partitions_that_are_missing_are_made_empty_and_named_once(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(folder) as server:
        server.create("orders", 4)
        server.append("orders", 2)
    for path in (folder / "orders-1", folder / "orders-3"):
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
    with Server(folder) as server:
        assert server.ends() == {"orders": [0, 0, 1, 0]}
    assert [record.getMessage() for record in caplog.records] == ["missing logs=orders-1,orders-3: made empty"]
    assert folders_in(folder) == ["orders-0", "orders-1", "orders-2", "orders-3"]


def test_a_folder_of_another_topic_of_the_same_name_fails_its_log(folder: Path) -> None:
    with Server(folder) as server:
        server.create("orders", 2)
    (folder / "orders-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_uuid(UUID(int=99).bytes)}")
    with Server(folder) as server:
        assert [each.log.is_failed for each in server.cluster.topics["orders"].partitions] == [False, True]


def test_folders_without_our_file_are_taken_over(folder: Path) -> None:
    with Server(folder) as server:
        server.create("a-0", 2)
        server.append("a-0", 1)
        topic_id = server.cluster.topics["a-0"].topic_id
    (folder / NAME).unlink()
    for name in ("no topic-0", "orders-00", "orders", "__cluster_metadata-0", "orders-0.ab-stray", "lost+found"):
        (folder / name).mkdir()
    for _ in range(2):
        with Server(folder) as server:
            topic = server.cluster.topics["a-0"]
            assert (server.ends(), topic.topic_id) == ({"a-0": [0, 1]}, topic_id)
            assert topic.overrides == {"retention.ms": "-1"}


def test_topics_keep_to_the_nodes_that_there_are(folder: Path) -> None:
    with Server(folder, nodes=3) as server:
        server.cluster.create_topic("t", [[NodeId(2), NodeId(1)], [NodeId(3)], [NodeId(1)]], {}, now_ms)
    with Server(folder, nodes=2) as server:
        partitions = server.cluster.topics["t"].partitions
        assert [partition.replicas for partition in partitions] == [(2, 1), (2,), (1,)]


def test_a_folder_that_cannot_be_read_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(folder) as server:
        server.create("t")
        server.append("t")

    def refuse(self: object, path: Path) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(FailingFilesystem, "open", refuse)
    with pytest.raises(BadDataDir, match=r"cannot use .*: Permission denied"):
        Server(folder, filesystem=FailingFilesystem())
