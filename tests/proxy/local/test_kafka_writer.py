"""The journal's writer on a fake cluster: its reports, and when it gives way to another proxy."""

import queue
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from kcoord.admin.connecting.connection import Connection
from kcoord.proxy.local import kafka_reader, kafka_writer
from kcoord.proxy.local.kafka_reader import PROOF_KEY, TERM, WRITER
from kcoord.proxy.local.kafka_topic import BadJournalTopic, JournalTopic, KafkaJournal
from kcoord.proxy.local.kafka_writer import Committed, Fenced, KafkaWriter, Loaded, Lost, Report, Round
from tests.proxy.local.fake_kafka import FakeKafka, FakeMessage, failure

PARTITIONS = 3
WAIT = 30.0
FAR_FUTURE = 1 << 50
BROKEN = KafkaError.INVALID_PRODUCER_ID_MAPPING  # the producer is unusable, although it was not fenced


class Stage:
    """A writer with a record of its reports."""

    def __init__(self, kafka: FakeKafka, *, max_message_bytes: int = 1 << 20) -> None:
        journal = KafkaJournal(upstream=Connection(bootstrap=("nowhere:1",)), topic="journal")
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.writer = KafkaWriter(journal, JournalTopic(PARTITIONS, max_message_bytes), self._reports.put)
        self.kafka = kafka

    def next_report(self) -> Report:
        return self._reports.get(timeout=WAIT)

    def loaded(self) -> Loaded:
        report = self.next_report()
        assert isinstance(report, Loaded), report
        return report

    def submit(self, value: bytes, *, epoch: int = 1, number: int = 1) -> None:
        self.writer.submit(Round(number, epoch, [(1, b"key", value)], 5))


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    made = FakeKafka(PARTITIONS)
    monkeypatch.setattr(kafka_writer, "_REST", 0.001)
    monkeypatch.setattr(kafka_writer, "_GRACE", 0.0)
    monkeypatch.setattr(kafka_writer, "Producer", made.producer)
    monkeypatch.setattr(kafka_reader, "Consumer", made.consumer)
    monkeypatch.setattr(kafka_writer, "ensure_is_unchanged", lambda journal, partitions: None)
    return made


@pytest.fixture
def make_stage(kafka: FakeKafka) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(**more: int) -> Stage:
        made.append(Stage(kafka, **more))
        made[-1].writer.start()
        return made[-1]

    yield make
    for stage in made:
        stage.writer.stop()


def writers(kafka: FakeKafka, partition: int) -> list[bytes]:
    """Returns the names of the writers whose proofs are in a partition, in order."""
    return [dict(each.headers())[WRITER] for each in kafka.logs[partition] if each.key() == PROOF_KEY]


def terms(kafka: FakeKafka, partition: int) -> list[int]:
    return [int.from_bytes(dict(each.headers())[TERM]) for each in kafka.logs[partition] if each.key() == PROOF_KEY]


def claim(term: int) -> dict[str, bytes]:
    return {WRITER: b"another", TERM: term.to_bytes(8)}


def test_what_is_kept_is_reported_as_it_was_written(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    assert stage.loaded().partitions == [{}, {}, {}]

    stage.submit(b"value")

    assert stage.next_report() == Committed(1)
    assert [(each.key(), each.value()) for each in stage.kafka.logs[1][-1:]] == [(b"key", b"value")]


def test_it_proves_itself_in_every_partition_and_says_who_it_is(make_stage: Callable[..., Stage]) -> None:
    first, second = make_stage(), make_stage()
    first.loaded()
    second.loaded()

    found = [writers(first.kafka, index) for index in range(PARTITIONS)]

    assert [len(set(each)) for each in found] == [2, 2, 2]
    assert len({frozenset(each) for each in found}) == 1


def test_what_a_new_leader_does_not_know_to_be_kept_yet_is_waited_for(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    reads = iter(range(100))

    def on_read() -> None:
        if next(reads) == 3:
            kafka.hidden[1] = 0

    kafka.write(1, b"key", b"acknowledged")
    kafka.hidden[1] = 2  # the record and the proof
    kafka.on_read = on_read

    assert make_stage().loaded().partitions[1] == {b"key": b"acknowledged"}


def test_a_proof_that_was_compacted_away_is_passed_with_what_is_behind_it(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    def on_read() -> None:  # another writer proves itself, and compaction leaves one record per key
        kafka.logs[2] = [kafka.logs[2][0], FakeMessage(2, 2, PROOF_KEY)]

    kafka.write(2, b"key", b"value")
    kafka.on_read = on_read

    assert make_stage().loaded().partitions[2] == {b"key": b"value"}


def test_what_it_proves_holds_since_before_it_was_read(
    kafka: FakeKafka, make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    for module in (kafka_reader, kafka_writer):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def on_read() -> None:
        clock[0] += 7

    kafka.on_read = on_read

    assert make_stage().loaded().proven_at == 107.0, "who has claimed it is read before, its contents after that"


def test_one_that_needs_a_new_producer_gives_way_to_who_has_written_since(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    stage = make_stage()
    stage.loaded()
    kafka.write(0, PROOF_KEY, None, claim(FAR_FUTURE))
    kafka.failures.append(failure(BROKEN, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Lost)
    assert isinstance(stage.next_report(), Fenced)
    assert len(kafka.producers) == 1, "a second one would have fenced the successor"


def test_one_that_needs_a_new_producer_goes_on_if_nobody_has_written_since(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    kafka.write(0, PROOF_KEY, None, {WRITER: b"the predecessor"})
    stage = make_stage()
    stage.loaded()
    kafka.failures.append(failure(BROKEN, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Lost)
    assert stage.loaded().epoch == 2
    assert len(kafka.producers) == 2


def test_one_that_is_fenced_by_a_proxy_gives_way_and_says_nothing_else(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    stage = make_stage()
    stage.loaded()
    kafka.write(0, PROOF_KEY, None, claim(FAR_FUTURE))
    kafka.failures.append(failure(KafkaError._FENCED, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Fenced)
    assert len(kafka.producers) == 1


def test_one_that_is_fenced_by_an_outsider_takes_the_journal_back(
    kafka: FakeKafka, make_stage: Callable[..., Stage], caplog: pytest.LogCaptureFixture
) -> None:
    stage = make_stage()
    stage.loaded()
    kafka.failures.append(failure(KafkaError._FENCED, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Lost), "what was handed over is not kept, and nobody is told that it was"
    assert stage.loaded().partitions[1] == {}
    assert len(kafka.producers) == 2
    assert "fenced, but no proxy has taken over: taken back" in caplog.text
    stage.submit(b"value", epoch=2, number=2)
    assert stage.next_report() == Committed(2)
    assert len(set(writers(kafka, 0))) == 1, "in the same term, by the same name"


def test_a_proxy_that_proves_itself_a_little_later_is_given_way_to(
    kafka: FakeKafka, make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_writer, "_GRACE", WAIT)
    stage = make_stage()
    stage.loaded()
    reads = iter(range(1000))

    def on_read() -> None:
        if next(reads) == 3:
            kafka.write(0, PROOF_KEY, None, claim(FAR_FUTURE))

    kafka.on_read = on_read
    kafka.failures.append(failure(KafkaError.PRODUCER_FENCED, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Lost)
    assert isinstance(stage.next_report(), Fenced)
    assert len(kafka.producers) == 1


def test_a_proxy_that_began_before_is_not_given_way_to(kafka: FakeKafka, make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    stage.loaded()
    kafka.write(0, PROOF_KEY, None, claim(1))  # it takes the journal back before it sees the successor's claim
    kafka.failures.append(failure(KafkaError._FENCED, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Lost)
    assert stage.loaded().epoch == 2


def test_a_proof_without_a_term_is_given_way_to(kafka: FakeKafka, make_stage: Callable[..., Stage]) -> None:
    kafka.write(0, PROOF_KEY, None, {WRITER: b"the predecessor"})
    stage = make_stage()
    stage.loaded()
    kafka.write(0, PROOF_KEY, None, {WRITER: b"of an older kcoord"})
    kafka.failures.append(failure(KafkaError._FENCED, fatal=True))

    stage.submit(b"value")

    assert isinstance(stage.next_report(), Fenced)


def test_who_begins_takes_a_term_behind_all_others_whatever_its_clock_says(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    kafka.write(0, PROOF_KEY, None, claim(FAR_FUTURE))

    make_stage().loaded()

    assert terms(kafka, 0) == [FAR_FUTURE, FAR_FUTURE + 1]


def test_a_busy_writer_proves_itself_too(
    kafka: FakeKafka, make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = make_stage()
    stage.loaded()
    stage.submit(b"value")
    assert stage.next_report() == Committed(1)
    assert len(writers(kafka, 0)) == 1

    monkeypatch.setattr(kafka_writer, "_PROOF_INTERVAL", 0.0)
    stage.submit(b"value", number=2)

    assert stage.next_report() == Committed(2)
    assert len(writers(kafka, 0)) == 2


def test_what_cannot_be_read_is_read_again_without_a_new_producer(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    kafka.first_messages.append(FakeMessage(0, 0, error=KafkaError(KafkaError._UNKNOWN_PARTITION)))

    make_stage().loaded()

    assert len(kafka.producers) == 1


def test_a_topic_that_cannot_be_used_for_a_while_needs_no_new_producer(
    kafka: FakeKafka, make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = iter(["it is gone", "the upstream does not answer"])

    def ensure_is_unchanged(*_: object) -> None:
        if trouble := next(troubles, None):
            raise BadJournalTopic(trouble)

    monkeypatch.setattr(kafka_writer, "ensure_is_unchanged", ensure_is_unchanged)
    kafka.failures.append(failure(KafkaError._TIMED_OUT))  # for the first proof

    make_stage().loaded()

    assert next(troubles, None) is None
    assert len(kafka.producers) == 1


def test_a_bug_of_the_writer_is_a_loss_and_said_before_anything_else(
    kafka: FakeKafka, make_stage: Callable[..., Stage]
) -> None:
    stage = make_stage()
    stage.loaded()
    kafka.failures.append(RuntimeError("a bug"))

    stage.submit(b"value")

    assert stage.next_report() == Lost("RuntimeError('a bug')")
    assert stage.loaded().partitions[1] == {}


def test_who_asks_for_a_reload_hears_of_a_loss_and_of_all_that_was_kept(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    stage.loaded()
    stage.submit(b"value")
    assert stage.next_report() == Committed(1)

    stage.writer.reload(1)

    assert isinstance(stage.next_report(), Lost)
    again = stage.loaded()
    assert (again.epoch, again.partitions[1]) == (2, {b"key": b"value"})


def test_a_reload_that_was_asked_for_twice_is_done_once(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    stage.loaded()

    stage.writer.reload(1)
    stage.writer.reload(1)
    stage.submit(b"value", epoch=2)

    assert isinstance(stage.next_report(), Lost)
    assert stage.loaded().epoch == 2
    assert stage.next_report() == Committed(1)


def test_no_batch_is_larger_than_the_topic_takes(kafka: FakeKafka, make_stage: Callable[..., Stage]) -> None:
    make_stage(max_message_bytes=200_000).loaded()

    assert kafka.producers[0].configuration["batch.size"] == 200_000
