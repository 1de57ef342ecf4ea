"""Idempotent producers of one partition: their last batches, to distinguish a duplicate from a gap.

The rules are those of Kafka's ProducerStateManager, ProducerStateEntry and ProducerAppendInfo:

| the batch's epoch       | its first sequence                         | answer                                        |
|-------------------------|--------------------------------------------|-----------------------------------------------|
| any, producer unknown   | any                                        | accepted: the batches before may be deleted   |
| any, the known one -1   | any                                        | accepted                                      |
| below the known one     | any                                        | INVALID_PRODUCER_EPOCH                        |
| above the known one     | 0                                          | accepted, the old epoch's batches are dropped |
| above the known one     | other                                      | OUT_OF_ORDER_SEQUENCE_NUMBER                  |
| the known one           | first and last of one of the last 5        | a duplicate: the offset it had then           |
| the known one           | the last sequence + 1, or 0 after 2^31-1   | accepted                                      |
| the known one           | other                                      | OUT_OF_ORDER_SEQUENCE_NUMBER                  |
"""

from collections import deque
from collections.abc import ItemsView
from dataclasses import dataclass, field

from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import NO_SEQUENCE, BatchHeader, step_sequence

NUM_BATCHES_TO_RETAIN = 5  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN: as many as an idempotent producer has in flight.
NO_EPOCH = -1
MAX_PRODUCERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedBatch:
    """A batch that an idempotent producer has appended: its sequence numbers, its offsets, and its timestamp in
    milliseconds.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """The error of an idempotent producer's batch whose epoch or sequence number is wrong."""

    error: ErrorCode
    message: str


@dataclass(slots=True, kw_only=True)
class Producer:
    """An idempotent producer's state in one partition: its epoch and its last five batches (Kafka's
    ProducerStateEntry).
    """

    epoch: int
    last_timestamp: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=NUM_BATCHES_TO_RETAIN))

    @property
    def last_sequence(self) -> int:
        """The last sequence number that was appended; -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """The idempotent producers of one partition (Kafka's ProducerStateManager), the longest silent first. The longest
    silent one is dropped beyond `max_producers`.
    """

    def __init__(self, *, max_producers: int = MAX_PRODUCERS) -> None:
        self.max_producers = max_producers
        self._by_id: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def items(self) -> ItemsView[int, Producer]:
        """Returns all producers by producer id."""
        return self._by_id.items()

    def restore(self, producer_id: int, producer: Producer) -> None:
        """Adds a producer's state from a snapshot file at start-up."""
        self._by_id[producer_id] = producer

    def check(self, header: BatchHeader) -> AppendedBatch | Fenced | None:
        """Checks the sequence of a batch to append. Returns the batch that it duplicates, or the error, or None if it
        may be appended.
        """
        producer = self._by_id.get(header.producer_id)
        known_epoch = producer.epoch if producer else NO_EPOCH
        if header.producer_epoch < known_epoch:
            return Fenced(
                error=ErrorCode.invalid_producer_epoch,
                message=f"Producer {header.producer_id} is at epoch {known_epoch}, not {header.producer_epoch}",
            )
        if producer is None:
            return None
        if header.producer_epoch == producer.epoch and (duplicate := _find_duplicate(header, producer)):
            return duplicate
        if producer.epoch == NO_EPOCH:
            return None
        if header.producer_epoch > producer.epoch:
            return _check_new_epoch(header)
        return _check_sequence(header, producer)

    def add(self, header: BatchHeader, *, base_offset: int, timestamp: int) -> None:
        """Adds a batch that was appended to its producer's state."""
        producer = self._by_id.pop(header.producer_id, None)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = Producer(epoch=header.producer_epoch, last_timestamp=timestamp)
        producer.last_timestamp = timestamp
        producer.batches.append(
            AppendedBatch(
                first_sequence=header.base_sequence,
                last_sequence=header.last_sequence,
                base_offset=base_offset,
                last_offset=base_offset + header.last_offset_delta,
                timestamp=timestamp,
            )
        )
        self._by_id[header.producer_id] = producer
        if len(self._by_id) > self.max_producers:
            del self._by_id[next(iter(self._by_id))]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers whose last record is older than `expiration_ms`. Returns how many."""
        # The time of their records counts, not of their arrival (ProducerStateManager.isProducerExpired).
        silent = [id_ for id_, producer in self._by_id.items() if now_ms - producer.last_timestamp >= expiration_ms]
        for id_ in silent:
            del self._by_id[id_]
        return len(silent)


def _find_duplicate(header: BatchHeader, producer: Producer) -> AppendedBatch | None:
    first, last = header.base_sequence, header.last_sequence
    for batch in producer.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return batch
    return None


def _check_new_epoch(header: BatchHeader) -> Fenced | None:
    if header.base_sequence == 0:
        return None
    return Fenced(
        error=ErrorCode.out_of_order_sequence_number,
        message=f"Epoch {header.producer_epoch} of producer {header.producer_id} "
        f"begins with sequence {header.base_sequence}, not 0",
    )


def _check_sequence(header: BatchHeader, producer: Producer) -> Fenced | None:
    last = producer.last_sequence
    if header.base_sequence == step_sequence(last, 1):
        return None
    return Fenced(
        error=ErrorCode.out_of_order_sequence_number,
        message=f"Producer {header.producer_id} sends sequence {header.base_sequence}, after {last}",
    )
