"""Writers that produce records: some with sequence numbers, so that a server recognizes duplicates, and
some without.
"""

import time
from random import Random
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import NO_PRODUCER, ProducerStamp, Record, write_batch
from tests.durability.support.ledger import Ledger
from tests.durability.support.writers import Read, Refusal, Surprise, Writer

TOPIC: Final = "produced"
PARTITIONS: Final = 4
_AHEAD: Final = 4  # A server caches five batches of a producer: these, and the one before.
_CODECS: Final = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD)

Request = tuple[int, int, dict[str, Any], Read]


class Producing(Writer):
    def produce(self, topic: str, partition: int, batch: bytes) -> Request:
        page = self.ledger.log(topic, partition)
        page.ask(batch)
        content = [{"index": partition, "records": batch}]
        values = {"acks": self.random.choice((-1, 1)), "topic_data": [{"name": topic, "partition_data": content}]}

        def read(answer: Any) -> None:
            line = answer.responses[0].partition_responses[0]
            self.check(line.error_code, f"produce to {topic}-{partition}")
            self.produced(partition, batch, line.base_offset)
            if wrong := page.acknowledge(batch, line.base_offset):
                raise Surprise(f"{topic}-{partition}: a batch {wrong}")
            self.acknowledged += 1

        return ApiKey.PRODUCE, self.random.choice((7, 9)), values, read

    def produced(self, partition: int, batch: bytes, offset: int) -> None:
        """Called when a batch was acknowledged."""

    def batch(self, producer: ProducerStamp = NO_PRODUCER) -> tuple[bytes, int]:
        """Makes a batch that is unlike all others, and returns it with its number of records."""
        now_ms = int(time.time() * 1000)
        records = [
            Record(timestamp=now_ms, key=f"{self.name} {self.fresh()}".encode(), value=_bytes(self.random))
            for _ in range(self.random.randint(1, 5))
        ]
        return write_batch(records, codec=self.random.choice(_CODECS), producer=producer), len(records)


class PlainProducer(Producing):
    """A producer that does not retry unanswered batches."""

    def step(self) -> None:
        partitions = [self.random.randrange(PARTITIONS) for _ in range(self.random.randint(1, _AHEAD))]
        self.ask_all([self.produce(TOPIC, partition, self.batch()[0]) for partition in partitions])


class NumberedProducer(Producing):
    """A producer that retries unanswered batches, and before them the last acknowledged batch."""

    def __init__(self, name: str, ledger: Ledger, seed: int, **options: Any) -> None:
        super().__init__(name, ledger, seed, **options)
        self._partition = self.random.randrange(PARTITIONS)
        self._producer_id = -1
        self._sequence = 0
        self._last: bytes | None = None
        self._unsure: dict[bytes, None] = {}

    def resume(self) -> None:
        """Retries after a restart, of which a server knows only the last batch of a producer in closed segments."""
        page = self.ledger.log(TOPIC, self._partition)
        *older, newest = [batch for batch in (self._last, *self._unsure) if batch and page.has(batch)] or [b""]
        for batch in older:
            try:
                self.ask_all([self.produce(TOPIC, self._partition, batch)])
            except Refusal as refusal:
                if "out_of_order_sequence_number" not in str(refusal):
                    raise
                self._unsure.pop(batch, None)
        if newest:
            self.ask_all([self.produce(TOPIC, self._partition, newest)])

    def step(self) -> None:
        if self._producer_id < 0:
            answer = self.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None)
            self.check(answer.error_code, "ask for a producer's id")
            self._producer_id = answer.producer_id
        for _ in range(self.random.randint(1, _AHEAD) - len(self._unsure)):
            self._unsure[self._next()] = None
        self.ask_all([self.produce(TOPIC, self._partition, batch) for batch in self._unsure])

    def produced(self, partition: int, batch: bytes, offset: int) -> None:
        self._unsure.pop(batch, None)
        self._last = batch

    def _next(self) -> bytes:
        stamp = ProducerStamp(id=self._producer_id, epoch=0, base_sequence=self._sequence)
        batch, size = self.batch(stamp)
        self._sequence += size
        return batch


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.choice((0, 20, 20, 20, 200, 3000)))
