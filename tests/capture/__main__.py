"""`python -m tests.capture [CLIENT …]`: refreshes fixtures/wire from clients that talk to a real Kafka."""

import asyncio
import socket
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types do not export it

from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.node import free_ports
from tests.capture.frames import FIXTURES, choose, write_frames
from tests.capture.proxy import RecordingProxy
from tests.capture.scenarios import Scenario, scenarios
from tests.clients.records import PARTITIONS

# The two members of a scenario's group join in one generation if the first waits for the second.
PROPERTIES = {"group.initial.rebalance.delay.ms": "1500", "auto.create.topics.enable": "false"}


def main(wanted: set[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        known = scenarios(folder)
        chosen = [each for each in known if not wanted or each.client in wanted]
        (proxy_port,) = free_ports(1)
        with KafkaCluster(advertised={1: f"127.0.0.1:{proxy_port}"}, properties=PROPERTIES) as kafka:
            asyncio.run(_capture(chosen, folder, proxy_port, kafka.brokers[0].port))
        _remove_old_versions(chosen, {each.name for each in known})


async def _capture(chosen: list[Scenario], folder: Path, proxy_port: int, broker_port: int) -> None:
    bootstrap = f"127.0.0.1:{proxy_port}"
    proxy = RecordingProxy(("127.0.0.1", broker_port))
    async with proxy.listening(proxy_port):
        await asyncio.to_thread(_create_topics, bootstrap, [_topic(each) for each in chosen])
        for scenario in chosen:
            proxy.client = scenario.name
            await asyncio.to_thread(scenario.play, bootstrap, _topic(scenario), folder)
            frames = choose(each for each in proxy.captured if each.client == proxy.client)
            _refuse_this_machine(b"".join(each.frame for each in frames))
            write_frames(FIXTURES / f"{scenario.name}.jsonl", frames)
            print(f"{scenario.name}: {len(frames)} frames, {sum(len(each.frame) for each in frames)} bytes")


def _topic(scenario: Scenario) -> str:
    return f"{scenario.name}-topic"


def _remove_old_versions(captured: list[Scenario], current: set[str]) -> None:
    for scenario in captured:
        for path in FIXTURES.glob(f"{scenario.client}-[0-9]*.jsonl"):
            if path.stem not in current:
                path.unlink()


def _create_topics(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # The records are from 2023: the broker would soon delete them.
    wanted = [NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"}) for topic in topics]
    for creation in admin.create_topics(wanted).values():
        creation.result(30)


def _refuse_this_machine(frames: bytes) -> None:
    # Topic ids and member ids are random bytes: a name of two or three letters is found in them by chance.
    machine_names = [name for name in (socket.gethostname(), str(Path.home()), tempfile.gettempdir()) if len(name) > 3]
    for name in machine_names:
        assert name.encode() not in frames, f"a captured frame names {name}"


if __name__ == "__main__":
    main(set(sys.argv[1:]))
