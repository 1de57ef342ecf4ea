"""The thread that writes and reads a journal on the upstream cluster: all calls that block are made here.

Theory of operation. There is one writer at a time: a producer with the journal's transactional id. A new one fences
those before it, and what they had not committed is aborted by then; so what is read after that is all there is.

    begin      a new producer          ─► fences the others
    prove      a transaction of ours   ─► the one before it is ended in every partition: a commit is acknowledged before
               in every partition         its markers are written, and until then a reader does not see it
    load       read up to those proofs ─► Loaded
    keep       all rounds that wait    ─► Kept, or Lost: then the transaction is ended somehow, and it is proven again

| what happens                         | and then                                                                      |
|--------------------------------------|-------------------------------------------------------------------------------|
| a commit takes too long, or fails    | Lost; the transaction is ended, well or not, and the journal read again (D5)  |
| it is to be loaded again             | Lost, and from `prove` on                                                     |
| it cannot be read                    | from `prove` on, by the same producer                                         |
| it is fenced, and another proxy has  | Fenced: it is the other's journal; nothing more is written                    |
| claimed the journal                  |                                                                               |
| it is fenced, and no proxy has       | Lost; if none has after a while either, a new producer: it was an outsider    |
| the producer cannot go on otherwise  | a new one, unless another proxy has claimed the journal: then Fenced          |
| the topic is gone, or another one    | nothing is written or made: groups wait for an operator                       |
| a bug                                | Lost, and a new producer                                                      |

A writer that is not asked for anything does not notice that it was fenced. So the log has it prove itself now and then.

A producer that begins fences whoever is there, even a successor, and whoever fenced this one need not be a proxy:
claiming.py tells whom to give way to.

Rounds carry the epoch of the load that they rest on: those of an earlier epoch are lost, though nobody has told them.
"""

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kcoord.admin.librdkafka.errors import in_words, without_secrets
from kcoord.proxy.local.journal_claims import Claiming
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

_PATIENCE: Final = 10.0  # seconds, for a transaction
_NOW: Final = 0  # as librdkafka takes a timestamp
_REST: Final = 1.0
_LAST_WORDS: Final = 5.0
_TRANSACTION_TIMEOUT: Final = 600.0
"""After so long the upstream takes an open transaction away, and us for fenced. It is open for moments, or during an
outage; the next writer ends it at once, whatever this says."""
_USUAL_BATCH: Final = 1_000_000  # bytes, as librdkafka has it
_FULL: Final = 0.1  # seconds that a full queue is waited for
_GRACE: Final = 5.0
"""Seconds after being fenced in which a proxy that takes over has to prove itself. If it takes longer it gets the
journal all the same, a little later; an outsider stops groups for at least so long."""
_PROOF_INTERVAL: Final = 60.0
"""Seconds after which a busy writer proves itself, too, so that who looks for successors has little to read."""
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

Entry = tuple[int, bytes, bytes | None]
"""Partition, key, value."""
Delivered = Callable[[KafkaError | None, Message], None]

PROOF: Final[Entry] = (0, PROOF_KEY, None)


class Round(NamedTuple):
    number: int
    epoch: int
    entries: Sequence[Entry]
    at_ms: int


class Reload(NamedTuple):
    """The journal is to be loaded again, if it was not since that epoch."""

    epoch: int


class Loaded(NamedTuple):
    epoch: int
    partitions: list[Contents]
    proven_at: float  # a monotonic instant: then, this was the writer


class Kept(NamedTuple):
    number: int


class Lost(NamedTuple):
    why: str


class Fenced(NamedTuple):
    why: str


Report = Loaded | Kept | Lost | Fenced


class KafkaWriter:
    """`tell` is called in this thread, with reports in their order."""

    def __init__(self, journal: KafkaJournal, topic: JournalTopic, tell: Callable[[Report], None]) -> None:
        self._journal = journal
        self._topic = topic
        self._tell = tell
        self._epoch = 0
        self._is_loaded = False
        self._troubles: set[str] = set()  # since the journal was last read
        self._work: queue.SimpleQueue[Round | Reload | None] = queue.SimpleQueue()
        self._is_stopping = threading.Event()
        self._reader = KafkaReader(journal, self._is_stopping.is_set)
        self._claiming = Claiming(self._reader, uuid.uuid4().bytes)
        self._proven_at = 0.0
        self._thread = threading.Thread(target=self._run, name="kcoord-journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, round_: Round) -> None:
        """Have it kept. Does not wait."""
        self._work.put(round_)

    def reload(self, epoch: int) -> None:
        """Have the journal loaded again, if it was not since that epoch. Does not wait."""
        self._work.put(Reload(epoch))

    def stop(self) -> None:
        """Waits until what was handed over is kept, but not for ever: the next writer ends what is left open."""
        self._is_stopping.set()
        self._work.put(None)
        self._thread.join(_LAST_WORDS)

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            fenced: str | None = None
            try:
                self._write()
            except _GaveWay as successor:
                self._tell(Fenced(str(successor)))
                return
            except _WasFenced as error:
                fenced = str(error)
            except KafkaException as error:
                self._lose(self._words(error))
                self._rest_after("groups wait until it can be written, which is tried again", self._words(error))
            except BadJournalTopic as error:
                self._rest_after("it cannot be used", str(error))
            except Exception as bug:
                log.exception("bug journal topic=%s: the writer begins anew", self._journal.topic)
                self._lose(repr(bug))
                self._is_stopping.wait(_REST)
            if fenced is not None and self._gives_way(fenced):  # here, as nothing of the old producer is referred to
                self._tell(Fenced(fenced))
                return

    def _lose(self, why: str) -> None:
        """What was handed over and is not kept is lost, whatever comes next."""
        if self._is_loaded:
            self._is_loaded = False
            self._tell(Lost(why))

    def _rest_after(self, what: str, why: str) -> None:
        """The same trouble is one line of the log, however long it lasts."""
        if why not in self._troubles:
            self._troubles.add(why)
            log.error("journal topic=%s: %s why=%r", self._journal.topic, what, why)
        self._is_stopping.wait(_REST)

    def _write(self) -> None:
        """With one producer, until it is stopped, fenced, or can no longer be used."""
        if self._troubles:
            ensure_is_unchanged(self._journal, self._topic.partitions)
        self._claim_or_give_way()
        producer = self._begun_producer()
        while not self._is_stopping.is_set():
            if loaded := self._loaded(producer):
                self._is_loaded = True
                self._tell(loaded)
                self._keep_work(producer)

    def _claim_or_give_way(self) -> None:
        """Raises _GaveWay, or KafkaException if it cannot be told who has claimed the journal."""
        if not self._claiming.has_begun:
            self._claiming.begin(now_ms())
        elif self._claiming.is_succeeded():
            raise _GaveWay("another proxy has claimed the journal")

    def _gives_way(self, why: str) -> bool:
        """Whether a proxy has taken over from one that was fenced; whoever fenced it has a while to say so."""
        deadline = time.monotonic() + _GRACE
        while not self._is_stopping.is_set():
            trouble = None
            try:
                if self._claiming.is_succeeded():
                    return True
            except KafkaException as error:
                trouble = self._words(error)
            self._lose(why)  # not before the first look: who was succeeded says that at once
            if trouble is not None:
                self._rest_after("it cannot be told who has claimed it", trouble)
            elif time.monotonic() >= deadline:
                log.warning("journal topic=%s: fenced, but no proxy has taken over: taken back", self._journal.topic)
                return False
            else:
                self._is_stopping.wait(_REST)
        return False

    def _loaded(self, producer: Producer) -> Loaded | None:
        """None if it could not be loaded now. The producer is as good as before. Raises what needs another."""
        if self._troubles:
            try:
                ensure_is_unchanged(self._journal, self._topic.partitions)
            except BadJournalTopic as error:
                self._rest_after("it cannot be used", str(error))
                return None
        proof = self._prove(producer)
        if proof is None:
            return None
        try:
            partitions = self._reader.read(proof.offsets)
        except KafkaException as error:
            self._rest_after("it cannot be read now", self._words(error))
            return None
        if partitions is None:
            return None
        self._epoch += 1
        self._troubles.clear()
        return Loaded(self._epoch, partitions, proof.at)

    def _keep_work(self, producer: Producer) -> None:
        """Until a round is lost, all is to be loaded again, or it is stopped."""
        while True:
            rounds, last = self._next_work()
            if rounds:
                entries = [entry for each in rounds for entry in each.entries]
                if time.monotonic() - self._proven_at > _PROOF_INTERVAL:
                    entries.append(PROOF)
                if failure := self._commit(producer, entries, rounds[-1].at_ms):
                    if failure.error.code() not in _FENCED:
                        self._lose(failure.why)
                    self._end_transaction(producer, failure)
                    return
                self._tell(Kept(rounds[-1].number))
            if isinstance(last, Reload):
                self._lose("a partition is to be read again")
            if not isinstance(last, Round):
                return

    def _next_work(self) -> tuple[list[Round], Round | Reload | None]:
        """All rounds that wait, and what came last: a round, to be loaded again, or to stop."""
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
        """In one transaction. None if it is kept.

        Nothing is asked of librdkafka while one of its exceptions is handled: what it raises then is never freed by
        confluent-kafka, nor is what that refers to, by way of the other's traceback the producer itself.
        """
        is_committing = False
        try:
            producer.begin_transaction()
            for entry in entries:
                self._produce(producer, entry, at_ms, delivered)
            is_committing = True
            producer.commit_transaction(_PATIENCE)
        except KafkaException as error:
            return _Failure(error.args[0], self._words(error), is_committing)
        return None

    def _proof_is_kept(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and message.partition() == 0 and offset is not None:
            self._claiming.proven(offset)
            self._proven_at = time.monotonic()

    def _produce(self, producer: Producer, entry: Entry, at_ms: int, delivered: Delivered | None) -> None:
        partition, key, value = entry
        more: dict[str, Any] = {}
        if key == PROOF_KEY:
            more = {"headers": self._claiming.headers, "on_delivery": delivered or self._proof_is_kept}
        while True:
            try:
                producer.produce(self._journal.topic, value, key, partition, timestamp=at_ms, **more)
            except BufferError:  # its queue is full: what is in it has to leave first
                producer.poll(_FULL)
            else:
                return

    def _end_transaction(self, producer: Producer, failure: "_Failure") -> None:
        """One way or the other: what came of it is read from the journal. Tried until the upstream can say."""
        error, commits = failure.error, failure.is_committing
        while not self._is_stopping.is_set():
            if error.code() in _FENCED:
                raise _WasFenced(in_words(error.str()))
            if error.fatal():
                raise KafkaException(error)
            commits = commits and error.retriable()
            try:
                if commits:
                    producer.commit_transaction(_PATIENCE)
                else:
                    producer.abort_transaction(_PATIENCE)
            except KafkaException as again:
                error = again.args[0]
                if error.code() == KafkaError._STATE:  # there is none: it never began
                    return
                self._is_stopping.wait(_REST)
            else:
                return

    def _prove(self, producer: Producer) -> "_Proof | None":
        """That we are the writer, and all before is ended. None if that could not be told now."""
        at, offsets = time.monotonic(), dict[int, int]()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._proof_is_kept(error, message)
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None and offset >= 0:
                offsets[partition] = offset

        partitions = range(self._topic.partitions)
        if failure := self._commit(producer, [(index, PROOF_KEY, None) for index in partitions], _NOW, delivered):
            self._end_transaction(producer, failure)
            self._rest_after("it cannot be written now", failure.why)
            return None
        if len(offsets) < len(partitions):  # as of one that was sent twice, and known already
            self._rest_after("it cannot be read now", "the upstream did not say where a proof is")
            return None
        return _Proof([offsets[index] for index in partitions], at)

    def _begun_producer(self) -> Producer:
        """Once the upstream has let it in. Raises KafkaException if it never will."""
        producer = Producer(
            configuration(
                self._journal,
                **{
                    "transactional.id": self._journal.transactional_id,
                    "transaction.timeout.ms": round(_TRANSACTION_TIMEOUT * 1000),
                    "message.timeout.ms": round(_PATIENCE * 1000),
                    "message.max.bytes": LARGEST_RECORD,
                    "batch.size": min(_USUAL_BATCH, self._topic.max_message_bytes),
                    "linger.ms": 0,
                    "allow.auto.create.topics": False,  # with the cluster's defaults it would forget
                },
            )
        )
        while not self._is_stopping.is_set():
            try:
                producer.init_transactions(_PATIENCE)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._rest_after("no answer from the upstream yet", self._words(error))
        return producer

    def _words(self, error: KafkaException) -> str:
        return without_secrets(in_words(error.args[0].str()), configuration(self._journal))


class _Proof(NamedTuple):
    """Where in each partition it is, and since when it holds."""

    offsets: Sequence[int]
    at: float


class _Failure(NamedTuple):
    """Of a transaction, and whether that was while it was committed."""

    error: KafkaError
    why: str
    is_committing: bool


class _WasFenced(Exception):
    """Another producer has begun with the same transactional id, whosever it is."""


class _GaveWay(Exception):
    """Another proxy has claimed the journal."""
