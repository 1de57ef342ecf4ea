"""Two clusters and a topic of the same name on both, whose logs are identical or not, as a test needs them."""

from collections.abc import Iterable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.admin.offsets_scene import DEADLINE, OffsetsScene, Run, kcoord

MINUTE = 60_000
START = 1_700_000_000_000  # 2023-11-14T22:13:20Z


class MirroredScene:
    """The clusters. `order n` is a record with its own key, value and time, identical on every cluster."""

    def __init__(self, source: OffsetsScene, target: OffsetsScene, topic: str) -> None:
        self.source, self.target, self.topic = source, target, topic

    def make_topics(self, *, partitions: int = 1, target_settings: dict[str, str] | None = None) -> None:
        """Creates a topic of this name on each side; their ids differ."""
        for scene, settings in ((self.source, {}), (self.target, target_settings or {})):
            admin = AdminClient({"bootstrap.servers": scene.bootstrap, "log_level": 0})
            topic = NewTopic(self.topic, partitions, 1, config={"retention.ms": "-1", **settings})
            admin.create_topics([topic])[self.topic].result(DEADLINE)
            scene.wait_for_topic(self.topic)

    def write(self, scene: OffsetsScene, orders: Iterable[int], *, partition: int = 0, mirrored: bool = False) -> None:
        """Writes records; a mirror adds a header of its own."""
        producer = Producer({"bootstrap.servers": scene.bootstrap, "linger.ms": 5, "log_level": 0})
        headers: list[tuple[str, str | bytes | None]] = [("mirrored-from", b"source")] if mirrored else []
        for number in orders:
            producer.produce(
                self.topic,
                f"order {number}".encode(),
                key=str(number).encode(),
                partition=partition,
                timestamp=START + number * MINUTE,
                headers=headers,
            )
        assert producer.flush(DEADLINE) == 0

    def copy(self, group: str, *options: str) -> Run:
        endpoints = ("--from", self.source.bootstrap, "--to", self.target.bootstrap)
        return kcoord("offsets", "copy", *endpoints, "--group", group, "--ignore-topic-ids", *options)

    def carry(self, group: str, *options: str) -> Run:
        """Exports here and imports there, which must give the same result as a copy."""
        exported = self.source.kcoord("export", "--regex", f"^{group}$", "-f", "carried.jsonl", "--force")
        assert exported.exit_code == 0, exported.stderr
        return self.target.kcoord("import", "carried.jsonl", "--ignore-topic-ids", *options)
