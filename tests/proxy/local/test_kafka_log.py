"""The journal on the upstream, as the coordinator sees it: its rounds, their records, and reading them back."""

import struct
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kcoord.broker.cluster import NodeId
from kcoord.groups.records import GroupDeleted, GroupStored, OffsetDeleted, OffsetsStored, StoredMember
from kcoord.metrics.counts import JournalCounts
from kcoord.offsets_log.decoding import FactReader
from kcoord.offsets_log.encoding import key_values
from kcoord.proxy.local import kafka_log
from kcoord.proxy.local.kafka_log import KafkaLog
from kcoord.proxy.local.kafka_reader import Contents
from kcoord.proxy.local.kafka_writer import PROOF, Loaded, Round
from kcoord.server.groups.group_journal import JournalLost

PARTITIONS = 4
MEMBER = StoredMember("m-1", None, "client", "/10.0.0.7", 45.0, 300.0, b"subscription", b"assignment")
STORED = GroupStored(
    group_id="payments",
    generation=3,
    protocol_type="consumer",
    protocol="range",
    leader_id="m-1",
    since_ms=5,
    members=(MEMBER,),
)
OFFSETS = OffsetsStored("payments", "orders", (0, 1), (17, 4), (2, -1), ("", "note"), 1_000)


def loaded(partitions: list[Contents], *, epoch: int = 1) -> Loaded:
    return Loaded(epoch, partitions, time.monotonic())


def ready_log() -> tuple[KafkaLog, list[Round]]:
    rounds: list[Round] = []
    log = KafkaLog(NodeId(1), PARTITIONS, rounds.append, reload=lambda _: None)
    log.on_loaded(loaded([{} for _ in range(PARTITIONS)]))
    return log, rounds


def contents_after(rounds: list[Round]) -> list[Contents]:
    """Returns the contents of a compacted topic after these rounds."""
    partitions: list[Contents] = [{} for _ in range(PARTITIONS)]
    for partition, key, value in (entry for each in rounds for entry in each.entries):
        partitions[partition].pop(key, None)
        if value is not None:
            partitions[partition][key] = value
    return partitions


def read_back(rounds: list[Round]) -> list[Any]:
    log = KafkaLog(NodeId(1), PARTITIONS, lambda _: None, reload=lambda _: None)
    log.on_loaded(loaded(contents_after(rounds)))
    return [fact for index in range(PARTITIONS) for some in log.read(index, FactReader()) for fact in some]


def test_all_that_was_decided_since_the_last_flush_is_one_round() -> None:
    log, rounds = ready_log()

    log.append([STORED], 10)
    log.append([OFFSETS], 11)
    assert not rounds
    failed = log.flush(12)

    assert (failed, log.submitted, log.committed) == ({}, 1, 0)
    (only,) = rounds
    expected = [(key, value) for fact in (STORED, OFFSETS) for key, value in key_values(fact)]
    assert [(key, value) for _, key, value in only.entries] == expected
    assert {partition for partition, _, _ in only.entries} == {log.partition_of("payments")}
    assert (only.number, only.epoch, only.at_ms) == (1, 1, 12)


def test_what_was_kept_is_read_as_it_was_written() -> None:
    log, rounds = ready_log()
    log.append([STORED, OFFSETS], 10)
    log.flush(10)

    facts = read_back(rounds)

    assert facts[0] == STORED
    assert [(fact.partitions, fact.offsets, fact.leader_epochs, fact.metadata) for fact in facts[1:]] == [
        ((0,), (17,), (2,), ("",)),
        ((1,), (4,), (-1,), ("note",)),
    ]


def test_what_was_deleted_is_not_read() -> None:
    log, rounds = ready_log()
    log.append([STORED, OFFSETS], 10)
    log.flush(10)
    log.append([OffsetDeleted(group_id="payments", topic="orders", partition=0)], 20)
    log.append([GroupDeleted(group_id="payments")], 20)
    log.flush(20)

    (left,) = read_back(rounds)

    assert isinstance(left, OffsetsStored)
    assert left.partitions == (1,)


def test_thousands_of_keys_are_read_some_at_a_time() -> None:
    log, rounds = ready_log()
    many = OffsetsStored("g", "t", range(2500), range(2500), [0] * 2500, [""] * 2500, 1)
    log.append([many], 1)
    log.flush(1)
    reading = KafkaLog(NodeId(1), PARTITIONS, lambda _: None, reload=lambda _: None)
    reading.on_loaded(loaded(contents_after(rounds)))

    steps: Sequence[Sequence[Any]] = list(reading.read(reading.partition_of("g"), FactReader()))

    assert len(steps) == 3
    offsets = [offset for facts in steps for fact in facts for offset in fact.offsets]
    assert offsets == list(range(2500))


def test_a_log_that_was_lost_keeps_nothing_and_waits_for_nothing() -> None:
    log, rounds = ready_log()
    log.append([OFFSETS], 10)
    log.flush(10)
    log.append([STORED], 11)

    log.on_lost()
    log.flush(12)

    assert len(rounds) == 1
    assert (log.committed, log.is_ready) == (log.submitted, False)


def test_rounds_after_a_loss_carry_the_epoch_of_what_was_read_again() -> None:
    log, rounds = ready_log()
    log.on_lost()
    log.on_loaded(loaded([{} for _ in range(PARTITIONS)], epoch=2))

    log.append([OFFSETS], 10)
    log.flush(10)

    assert [each.epoch for each in rounds] == [2]


def test_nothing_to_keep_is_no_round_as_long_as_the_last_one_is_fresh() -> None:
    log, rounds = ready_log()

    log.flush(10)

    assert not rounds


def test_no_answer_rests_on_old_knowledge_of_who_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_log, "_TRUSTED", -1.0)
    log, rounds = ready_log()

    log.flush(10)
    log.flush(11)

    assert [each.entries for each in rounds] == [[PROOF]], "one is under way, which proves it for the second, too"
    log.on_committed(1, JournalCounts())
    log.flush(12)
    assert len(rounds) == 2


def test_what_is_kept_is_counted_when_it_is() -> None:
    log, rounds = ready_log()
    counts = JournalCounts()
    log.append([GroupDeleted(group_id="g")], 10)
    log.flush(10)
    assert counts.written_bytes == 0
    log.on_committed(rounds[-1].number, counts)
    assert counts.written_bytes == sum(len(key) + len(value or b"") for _, key, value in rounds[-1].entries) > 0
    assert counts.transactions.count == 1


def test_a_proof_is_no_fact_of_any_group() -> None:
    log, rounds = ready_log()
    log.append([OFFSETS], 10)
    log.flush(10)
    rounds.append(Round(2, 1, [PROOF], 11))

    assert {fact.group_id for fact in read_back(rounds)} == {"payments"}


def test_a_partition_is_read_once_and_then_the_topic_is_to_be_loaded_again() -> None:
    reloads: list[int] = []
    log = KafkaLog(NodeId(1), PARTITIONS, lambda _: None, reloads.append)
    log.on_loaded(loaded([{} for _ in range(PARTITIONS)], epoch=7))
    assert not list(log.read(2, FactReader()))

    with pytest.raises(JournalLost):
        list(log.read(2, FactReader()))

    assert reloads == [7]
    assert not list(log.read(1, FactReader())), "others were not read yet"


def test_of_records_that_cannot_all_be_written_none_is() -> None:
    log, rounds = ready_log()
    unwritable = GroupDeleted(group_id="g" * 40_000)

    with pytest.raises(struct.error):
        log.append([OFFSETS, unwritable], 10)
    log.flush(10)

    assert not rounds
