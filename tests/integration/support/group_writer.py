"""Writes numbered records to every partition all the time, while a group rebalances."""

import threading
from collections import Counter

from confluent_kafka import KafkaError, KafkaException, Producer

INTERVAL = 0.02


class Writer:
    """Writes one record to each partition, over and over; its value is its offset."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,
            }
        )
        self._written: Counter[tuple[str, int]] = Counter()
        self._failures: list[str] = []
        self._topics: dict[str, int] = {}
        self._lock = threading.Lock()
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def write_to(self, topic: str, partitions: int) -> None:
        """Starts to write to so many partitions."""
        with self._lock:
            self._topics[topic] = partitions

    def finish(self) -> dict[str, int]:
        """Stops, and returns the end of each partition."""
        self.stop()
        left = self._producer.flush(60)
        assert not left, f"{left} records were not delivered"
        assert not self._failures, self._failures[:3]
        return {f"{topic}-{partition}": count for (topic, partition), count in self._written.items()}

    def stop(self) -> None:
        self._is_done.set()
        self._thread.join()

    def close(self) -> None:
        self.stop()
        self._producer.close()

    def _write(self) -> None:
        while not self._is_done.wait(INTERVAL):
            with self._lock:
                wanted = [(topic, index) for topic, count in self._topics.items() for index in range(count)]
            for topic, index in wanted:
                self._write_one(topic, index)
            self._producer.poll(0)

    def _write_one(self, topic: str, index: int) -> None:
        number = self._written[topic, index]
        try:
            self._producer.produce(topic, str(number).encode(), partition=index, on_delivery=self._delivered)
        except KafkaException as error:
            # A new partition that is not in the producer's metadata yet: it is retried in the next round.
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
        else:
            self._written[topic, index] += 1

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failures.append(str(error))
