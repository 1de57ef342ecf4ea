"""The thread that writes and reads a journal on the upstream cluster: all blocking calls are made here.

Theory of operation. There is one writer at a time: a producer with the journal's transactional id. A new producer
fences earlier ones, whose open transactions are then aborted, so a reader that starts after that sees everything.

    begin      a new producer           ─► fences the others
    prove      a transaction with one   ─► the previous transaction has ended in every partition: a commit is
               record per partition        acknowledged before its markers are written, and readers need the markers
    load       read up to those proofs  ─► Loaded
    commit     all rounds that wait     ─► Committed, or Lost: then the transaction is ended, and `prove` follows

| event                                | what the writer does                                                          |
|--------------------------------------|-------------------------------------------------------------------------------|
| a commit times out or fails          | reports Lost, commits or aborts the transaction, reads the journal again (D5) |
| a reload is requested                | reports Lost, continues with `prove`                                          |
| the journal cannot be read           | continues with `prove`, with the same producer                                |
| it is fenced, and another proxy has  | reports Fenced: the journal is the other's, and nothing more is written       |
| claimed the journal                  |                                                                               |
| it is fenced, and no proxy has       | reports Lost; if there is still no claim after a while, an outsider fenced it:|
| claimed the journal                  | a new producer takes the journal back                                         |
| another fatal error of the producer  | makes a new one, unless another proxy has claimed the journal: then Fenced    |
| the topic is deleted or recreated    | writes and creates nothing: groups wait for an operator                       |
| a bug                                | reports Lost, and makes a new producer                                        |

An idle writer does not notice that it was fenced. So the log submits a proof now and then.

A producer that begins fences any other, even a successor, and this one may have been fenced by something that is not a
proxy: journal_claims.py decides whether to give way.

A round carries the epoch of the load that it depends on. A round of an earlier epoch is dropped: Lost was already
reported.
"""

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kcoord.admin.librdkafka.errors import clean_message, without_secrets
from kcoord.exceptions import RemoteFailure
from kcoord.proxy.local.journal_claims import WriterClaim
from kcoord.proxy.local.kafka_reader import PROOF_KEY, Contents, KafkaReader
from kcoord.proxy.local.kafka_topic import (
    LARGEST_RECORD,
    BadJournalTopic,
    JournalTopic,
    KafkaJournal,
    configuration,
    ensure_is_unchanged,
)
from kcoord.server.clock import now_ms

log = logging.getLogger("kcoord.storage")

_CALL_TIMEOUT: Final = 10.0  # seconds, per transactional call
_NOW: Final = 0  # the timestamp for which librdkafka takes the current time
_REST: Final = 1.0
_STOP_TIMEOUT: Final = 5.0
_TRANSACTION_TIMEOUT: Final = 600.0
"""Seconds after which the upstream aborts an open transaction and fences the producer. A transaction is open only for
moments, or during an outage; the next writer aborts it at once in any case."""
_DEFAULT_BATCH_BYTES: Final = 1_000_000  # bytes, librdkafka's default
_FULL_QUEUE_POLL: Final = 0.1  # seconds of waiting for room in librdkafka's queue
_GRACE: Final = 5.0
"""Seconds after being fenced in which a successor should write its proof. If it takes longer, it still gets the
journal, a little later. An outsider that fences the writer stops groups for at least so long."""
_PROOF_INTERVAL: Final = 60.0
"""Seconds after which a busy writer adds a proof, so that searching for later claims has little to read."""
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

Entry = tuple[int, bytes, bytes | None]
"""A record: partition, key, value."""
Delivered = Callable[[KafkaError | None, Message], None]

PROOF: Final[Entry] = (0, PROOF_KEY, None)


class Round(NamedTuple):
    """All records for the journal (the topic with groups' records) that were decided between two flushes. They are
    committed in one transaction.
    """

    number: int
    epoch: int
    entries: Sequence[Entry]
    at_ms: int


class Reload(NamedTuple):
    """A request to the writer thread to read the journal (the topic with groups' records) again, unless it was read
    after the load of this number.
    """

    epoch: int


class Loaded(NamedTuple):
    """The writer thread's report that it has read the journal (the topic with groups' records): the last value of each
    key in each partition.
    """

    epoch: int
    partitions: list[Contents]
    proven_at: float  # the monotonic instant at which this was proven to be the writer


class Committed(NamedTuple):
    """The writer thread's report that all rounds of records up to this number are committed to the journal."""

    number: int


class Lost(NamedTuple):
    """The writer thread's report that all uncommitted rounds of records are lost, and that the journal will be read
    again.
    """

    why: str


class Fenced(NamedTuple):
    """The writer thread's report that another proxy has claimed the journal (the topic with groups' records),
    for good.
    """

    why: str


Report = Loaded | Committed | Lost | Fenced


class KafkaWriter:
    """The thread that writes the journal (the topic with groups' records on the upstream cluster) in transactions. It
    calls `report` in this thread, in the order of events.
    """

    def __init__(self, journal: KafkaJournal, topic: JournalTopic, report: Callable[[Report], None]) -> None:
        self._journal = journal
        self._topic = topic
        self._report = report
        self._epoch = 0
        self._is_loaded = False
        self._troubles: set[str] = set()  # logged since the journal was last read
        self._work: queue.SimpleQueue[Round | Reload | None] = queue.SimpleQueue()
        self._is_stopping = threading.Event()
        self._reader = KafkaReader(journal, self._is_stopping.is_set)
        self._claim = WriterClaim(self._reader, uuid.uuid4().bytes)
        self._proven_at = 0.0
        self._thread = threading.Thread(target=self._run, name="kcoord-journal", daemon=True)

    def start(self) -> None:
        """Starts the thread, which claims the journal (the topic with groups' records) and reads it."""
        self._thread.start()

    def submit(self, round_: Round) -> None:
        """Queues a round (all records of one flush) to be committed in a transaction; does not block."""
        self._work.put(round_)

    def reload(self, epoch: int) -> None:
        """Queues another read of the journal's topic, unless it was read after the load of this number; does
        not block.
        """
        self._work.put(Reload(epoch))

    def stop(self) -> None:
        """Waits until queued rounds are committed, with a timeout, and ends the thread: the next writer aborts what is
        still open.
        """
        self._is_stopping.set()
        self._work.put(None)
        self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            fenced: str | None = None
            try:
                self._write()
            except _Superseded as successor:
                self._report(Fenced(str(successor)))
                return
            except _ProducerFenced as error:
                fenced = str(error)
            except KafkaException as error:
                self._report_lost(self._format_error(error))
                self._log_and_pause(
                    "groups wait until it can be written, which is tried again", self._format_error(error)
                )
            except BadJournalTopic as error:
                self._log_and_pause("it cannot be used", str(error))
            except Exception as bug:
                log.exception("bug journal topic=%s: the writer begins anew", self._journal.topic)
                self._report_lost(repr(bug))
                self._is_stopping.wait(_REST)
            # Outside the except block, so that nothing refers to the old producer.
            if fenced is not None and self._is_superseded(fenced):
                self._report(Fenced(fenced))
                return

    def _report_lost(self, why: str) -> None:
        """Reports that all uncommitted rounds are lost."""
        if self._is_loaded:
            self._is_loaded = False
            self._report(Lost(why))

    def _log_and_pause(self, what: str, why: str) -> None:
        """Logs a problem and pauses; each reason is logged once until the journal is loaded again."""
        if why not in self._troubles:
            self._troubles.add(why)
            log.error("journal topic=%s: %s why=%r", self._journal.topic, what, why)
        self._is_stopping.wait(_REST)

    def _write(self) -> None:
        """Works with one producer until it is stopped, fenced, or the producer can no longer be used."""
        if self._troubles:
            ensure_is_unchanged(self._journal, self._topic.partitions)
        self._claim_or_give_way()
        producer = self._init_producer()
        while not self._is_stopping.is_set():
            if loaded := self._load(producer):
                self._is_loaded = True
                self._report(loaded)
                self._commit_rounds(producer)

    def _claim_or_give_way(self) -> None:
        """Claims the journal, or checks that the claim still holds. Raises _Superseded, or KafkaException if the claims
        cannot be read."""
        if not self._claim.has_begun:
            self._claim.begin(now_ms())
        elif self._claim.has_successor():
            raise _Superseded("another proxy has claimed the journal")

    def _is_superseded(self, why: str) -> bool:
        """Whether another proxy has taken over from this fenced writer; waits a while for its claim."""
        deadline = time.monotonic() + _GRACE
        while not self._is_stopping.is_set():
            trouble = None
            try:
                if self._claim.has_successor():
                    return True
            except KafkaException as error:
                trouble = self._format_error(error)
            self._report_lost(why)  # only after the first check: a superseded writer reports Fenced alone
            if trouble is not None:
                self._log_and_pause("it cannot be told who has claimed it", trouble)
            elif time.monotonic() >= deadline:
                log.warning("journal topic=%s: fenced, but no proxy has taken over: taken back", self._journal.topic)
                return False
            else:
                self._is_stopping.wait(_REST)
        return False

    def _load(self, producer: Producer) -> Loaded | None:
        """Loads the journal; None if that failed for now. An exception means that a new producer is needed."""
        if self._troubles:
            try:
                ensure_is_unchanged(self._journal, self._topic.partitions)
            except BadJournalTopic as error:
                self._log_and_pause("it cannot be used", str(error))
                return None
        proof = self._prove(producer)
        if proof is None:
            return None
        try:
            partitions = self._reader.read(proof.offsets)
        except KafkaException as error:
            self._log_and_pause("it cannot be read now", self._format_error(error))
            return None
        if partitions is None:
            return None
        self._epoch += 1
        self._troubles.clear()
        return Loaded(self._epoch, partitions, proof.at)

    def _commit_rounds(self, producer: Producer) -> None:
        """Commits rounds until one is lost, a reload is requested, or it is stopped."""
        while True:
            rounds, last = self._next_rounds()
            if rounds:
                entries = [entry for each in rounds for entry in each.entries]
                if time.monotonic() - self._proven_at > _PROOF_INTERVAL:
                    entries.append(PROOF)
                if failure := self._commit(producer, entries, rounds[-1].at_ms):
                    if failure.error.code() not in _FENCED:
                        self._report_lost(failure.why)
                    self._end_transaction(producer, failure)
                    return
                self._report(Committed(rounds[-1].number))
            if isinstance(last, Reload):
                self._report_lost("a partition is to be read again")
            if not isinstance(last, Round):
                return

    def _next_rounds(self) -> tuple[list[Round], Round | Reload | None]:
        """Waits for work; returns all queued rounds, and the last item: a round, a Reload, or None to stop."""
        rounds: list[Round] = []
        while True:
            next_one = self._work.get()
            if next_one is None:
                return rounds, None
            if next_one.epoch == self._epoch:
                if isinstance(next_one, Reload):
                    return rounds, next_one
                rounds.append(next_one)
            if rounds and self._work.empty():
                return rounds, rounds[-1]

    def _commit(
        self, producer: Producer, entries: Sequence[Entry], at_ms: int, delivered: Delivered | None = None
    ) -> "_Failure | None":
        """Commits entries in one transaction; returns None on success.

        librdkafka must not be called while one of its exceptions is handled: an exception raised then is never freed by
        confluent-kafka, nor anything that it refers to, which through the other's traceback includes the producer.
        """
        is_committing = False
        try:
            producer.begin_transaction()
            for entry in entries:
                self._produce(producer, entry, at_ms, delivered)
            is_committing = True
            producer.commit_transaction(_CALL_TIMEOUT)
        except KafkaException as error:
            return _Failure(error.args[0], self._format_error(error), is_committing)
        return None

    def _on_proof_delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and message.partition() == 0 and offset is not None:
            self._claim.on_proof(offset)
            self._proven_at = time.monotonic()

    def _produce(self, producer: Producer, entry: Entry, at_ms: int, delivered: Delivered | None) -> None:
        partition, key, value = entry
        more: dict[str, Any] = {}
        if key == PROOF_KEY:
            more = {"headers": self._claim.headers, "on_delivery": delivered or self._on_proof_delivered}
        while True:
            try:
                producer.produce(self._journal.topic, value, key, partition, timestamp=at_ms, **more)
            except BufferError:  # its queue is full: some of it has to be sent first
                producer.poll(_FULL_QUEUE_POLL)
            else:
                return

    def _end_transaction(self, producer: Producer, failure: "_Failure") -> None:
        """Commits or aborts a failed transaction, retrying until the upstream answers.

        The outcome is then read from the journal. An exception means that a new producer is needed.
        """
        error, commits = failure.error, failure.is_committing
        while not self._is_stopping.is_set():
            if error.code() in _FENCED:
                raise _ProducerFenced(clean_message(error.str()))
            if error.fatal():
                raise KafkaException(error)
            commits = commits and error.retriable()
            try:
                if commits:
                    producer.commit_transaction(_CALL_TIMEOUT)
                else:
                    producer.abort_transaction(_CALL_TIMEOUT)
            except KafkaException as again:
                error = again.args[0]
                if error.code() == KafkaError._STATE:  # no transaction is open: it never began
                    return
                self._is_stopping.wait(_REST)
            else:
                return

    def _prove(self, producer: Producer) -> "_Proof | None":
        """Proves that this is the writer and that all earlier transactions have ended; None if that failed for now."""
        at, offsets = time.monotonic(), dict[int, int]()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._on_proof_delivered(error, message)
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None and offset >= 0:
                offsets[partition] = offset

        partitions = range(self._topic.partitions)
        if failure := self._commit(producer, [(index, PROOF_KEY, None) for index in partitions], _NOW, delivered):
            self._end_transaction(producer, failure)
            self._log_and_pause("it cannot be written now", failure.why)
            return None
        if len(offsets) < len(partitions):  # as for a record that was resent, and that the broker had already
            self._log_and_pause("it cannot be read now", "the upstream did not say where a proof is")
            return None
        return _Proof([offsets[index] for index in partitions], at)

    def _init_producer(self) -> Producer:
        """Makes a producer and retries its initialization. Raises KafkaException if the error is not retriable."""
        producer = Producer(
            configuration(
                self._journal,
                **{
                    "transactional.id": self._journal.transactional_id,
                    "transaction.timeout.ms": round(_TRANSACTION_TIMEOUT * 1000),
                    "message.timeout.ms": round(_CALL_TIMEOUT * 1000),
                    "message.max.bytes": LARGEST_RECORD,
                    "batch.size": min(_DEFAULT_BATCH_BYTES, self._topic.max_message_bytes),
                    "linger.ms": 0,
                    "allow.auto.create.topics": False,  # a topic with the cluster's defaults would lose records
                },
            )
        )
        while not self._is_stopping.is_set():
            try:
                producer.init_transactions(_CALL_TIMEOUT)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._log_and_pause("no answer from the upstream yet", self._format_error(error))
        return producer

    def _format_error(self, error: KafkaException) -> str:
        return without_secrets(clean_message(error.args[0].str()), configuration(self._journal))


class _Proof(NamedTuple):
    """The offset of the proof in each partition, and the instant from which it holds."""

    offsets: Sequence[int]
    at: float


class _Failure(NamedTuple):
    """Why a transaction failed, and whether that was during its commit."""

    error: KafkaError
    why: str
    is_committing: bool


class _ProducerFenced(RemoteFailure):
    """Another producer has begun with the same transactional id; it need not be a proxy's."""


class _Superseded(RemoteFailure):
    """Another proxy has claimed the journal."""
