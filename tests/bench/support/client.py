"""The client program of the benchmarks, the same for every server: confluent-kafka, in a separate process.

python -m tests.bench.support.client produce --bootstrap HOST:PORT --topic T --records N --size BYTES
                                             [--codec lz4] [--batch B]
python -m tests.bench.support.client fetch --bootstrap HOST:PORT --topic T --records N

Prints one line of JSON: how many records and bytes went through, and in how many seconds: from the first record to the
last answer, without the start of the process.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

ROOT = Path(__file__).parents[3]
TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Passed:
    """How many records and bytes went through, and how long it took."""

    records: int
    bytes: int
    seconds: float


def produce(
    bootstrap: str, topic: str, *, records: int, size: int, codec: str = "none", batch: int = 1_000_000
) -> Passed:
    return _run("produce", bootstrap, topic, records=records, size=size, codec=codec, batch=batch)


def fetch(bootstrap: str, topic: str, *, records: int) -> Passed:
    return _run("fetch", bootstrap, topic, records=records)


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **settings: str) -> None:
    client = _admin(bootstrap)  # a reference is needed: the future dies with the client
    config = {name.replace("_", "."): value for name, value in settings.items()}
    client.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)


def delete_topic(bootstrap: str, topic: str) -> None:
    client = _admin(bootstrap)
    client.delete_topics([topic])[topic].result(30)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def start(verb: str, bootstrap: str, topic: str, **options: Any) -> "subprocess.Popen[str]":
    """Starts the program in the background; `finish` returns its result."""
    command = [sys.executable, "-m", "tests.bench.support.client", verb, "--bootstrap", bootstrap, "--topic", topic]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def finish(process: "subprocess.Popen[str]") -> Passed:
    try:
        output, _ = process.communicate(timeout=2 * TIMEOUT)
    finally:
        process.kill()
        process.wait()
    return Passed(**json.loads(output))


def _run(verb: str, bootstrap: str, topic: str, **options: Any) -> Passed:
    return finish(start(verb, bootstrap, topic, **options))


def _produce(args: argparse.Namespace) -> Passed:
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": args.bootstrap,
            "acks": "all",
            "compression.type": args.codec,
            "batch.size": args.batch,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )
    producer.list_topics(args.topic, timeout=30)
    values = _values(args.size)
    started = time.perf_counter()
    for number in range(args.records):
        producer.produce(args.topic, values[number % len(values)], on_delivery=_note_failure(failures))
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(TIMEOUT)
    seconds = time.perf_counter() - started
    assert not left, f"{left} records were not delivered"
    assert not failures, failures[0]
    return Passed(args.records, args.records * args.size, seconds)


def _note_failure(failures: list[object]) -> Any:
    return lambda error, message: failures.append(error) if error else None


def _values(size: int) -> list[bytes]:
    """Returns values of half noise and half text, so that compression has some effect, but not too much."""
    generator = random.Random(1)
    half = size // 2
    return [generator.randbytes(half) + (b"kcoord bench " * size)[: size - half] for _ in range(256)]


def _fetch(args: argparse.Namespace) -> Passed:
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 500_000,
            "max.partition.fetch.bytes": 8 << 20,
        }
    )
    consumer.list_topics(args.topic, timeout=30)
    partitions = consumer.list_topics(args.topic, timeout=30).topics[args.topic].partitions
    started = time.perf_counter()
    consumer.assign([TopicPartition(args.topic, partition, OFFSET_BEGINNING) for partition in partitions])
    records = size = 0
    while records < args.records:
        messages = consumer.consume(10_000, timeout=0.5)
        records += len(messages)
        size += sum(len(message.value() or b"") for message in messages)
        assert time.perf_counter() - started < TIMEOUT, f"{records} of {args.records} records came"
    seconds = time.perf_counter() - started
    consumer.close()
    return Passed(records, size, seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["produce", "fetch"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--batch", type=int, default=1_000_000)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _arguments()
    print(json.dumps(asdict(_produce(arguments) if arguments.verb == "produce" else _fetch(arguments))))
