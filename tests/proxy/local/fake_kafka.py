"""A fake of librdkafka for the journal's writer: one topic, transactions, and failures that the test injects."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

END = KafkaError(KafkaError._PARTITION_EOF)


class FakeMessage:
    def __init__(
        self,
        partition: int,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        error: KafkaError | None = None,
    ) -> None:
        self._partition, self._offset, self._error = partition, offset, error
        self._key, self._value, self._headers = key, value, list(headers)

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return self._headers

    def error(self) -> KafkaError | None:
        return self._error


class FakeKafka:
    """A cluster. The next transactions raise `failures`; consumers get `first_messages` before what they read."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[FakeMessage]] = [[] for _ in range(partitions)]
        self.hidden = [0] * partitions  # per partition, records at the end that its new leader does not serve yet
        self.producers: list[FakeProducer] = []
        self.failures: deque[Exception] = deque()
        self.first_messages: deque[FakeMessage] = deque()
        self.on_read: Callable[[], None] = lambda: None

    def write(self, partition: int, key: bytes, value: bytes | None, headers: dict[str, bytes] | None = None) -> int:
        log = self.logs[partition]
        log.append(FakeMessage(partition, len(log), key, value, list((headers or {}).items())))
        return len(log) - 1

    def producer(self, configuration: dict[str, Any]) -> "FakeProducer":
        self.producers.append(FakeProducer(self, configuration))
        return self.producers[-1]

    def consumer(self, configuration: dict[str, Any]) -> "FakeConsumer":
        return FakeConsumer(self)


class FakeProducer:
    def __init__(self, kafka: FakeKafka, configuration: dict[str, Any]) -> None:
        self.configuration = configuration
        self._kafka = kafka
        self._unsent: list[tuple[Any, ...]] = []

    def init_transactions(self, timeout: float) -> None: ...

    def begin_transaction(self) -> None:
        if self._kafka.failures:
            raise self._kafka.failures.popleft()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes,
        partition: int,
        *,
        timestamp: int,
        headers: dict[str, bytes] | None = None,
        on_delivery: Callable[[KafkaError | None, FakeMessage], None] | None = None,
    ) -> None:
        self._unsent.append((partition, key, value, headers, on_delivery))

    def commit_transaction(self, timeout: float) -> None:
        unsent, self._unsent = self._unsent, []
        for partition, key, value, headers, on_delivery in unsent:
            self._kafka.write(partition, key, value, headers)
            if on_delivery:
                on_delivery(None, self._kafka.logs[partition][-1])

    def abort_transaction(self, timeout: float) -> None:
        self._unsent.clear()


class FakeConsumer:
    """A consumer that reports each end of a partition once, as librdkafka does."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def assign(self, partitions: Sequence[Any]) -> None:
        self._next = {partition.partition: partition.offset for partition in partitions}

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        self._kafka.on_read()
        messages = list(self._kafka.first_messages)
        self._kafka.first_messages.clear()
        for index, position in self._next.items():
            log = self._kafka.logs[index]
            end = max(position, len(log) - self._kafka.hidden[index])
            messages += log[position:end]
            self._next[index] = end
            if self._ends.get(index) != end:
                self._ends[index] = end
                messages.append(FakeMessage(index, end, error=END))
        return messages

    def close(self) -> None: ...


def failure(code: int, *, fatal: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "told by the test", fatal))
