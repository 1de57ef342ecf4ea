"""`--metrics` of real processes: real consumers come and go, and a scrape shows it."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.metrics import catalogue
from kcoord.testing.process import CapturedProcess
from tests.support.scrapes import OPEN_METRICS, Scrape, ask

PARTITIONS = 6
cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/
SERVE = (
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--topic",
    f"t:{PARTITIONS}",
    "--set",
    "group.initial.rebalance.delay.ms=0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    bootstrap: str
    metrics: str

    def scrape(self, accept: str = "*/*") -> Scrape:
        return Scrape(self.metrics, accept)

    def path(self, name: str) -> str:
        return self.metrics.replace("/metrics", name)

    def until(self, is_so: Callable[[Scrape], bool]) -> Scrape:
        deadline = time.monotonic() + 60
        while not is_so(scrape := self.scrape()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return scrape


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "kcoord.commands", *arguments, "--metrics", "0", "-o", "json"]
    process = CapturedProcess(command, name=f"kcoord {arguments[0]}")
    try:
        ready = json.loads(process.wait_for('/v1"', timeout=60))
        yield Running(bootstrap=ready["bootstrap"], metrics=ready["metrics"])
    finally:
        process.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(*SERVE) as started:
        yield started


@contextmanager
def members(bootstrap: str, group_id: str, count: int) -> Iterator[list[Consumer]]:
    """Starts so many consumers, and waits until each has its share of the partitions."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False}
    consumers = [Consumer({**settings, "heartbeat.interval.ms": 200}) for _ in range(count)]
    try:
        for consumer in consumers:
            consumer.subscribe(["t"])
        deadline = time.monotonic() + 60
        while [len(consumer.assignment()) for consumer in consumers] != [PARTITIONS // count] * count:
            assert time.monotonic() < deadline
            for consumer in consumers:
                consumer.poll(0.05)
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


def commit(consumer: Consumer) -> None:
    offsets = [TopicPartition("t", each.partition, 0) for each in consumer.assignment()]
    consumer.commit(offsets=offsets, asynchronous=False)


def test_three_consumers_are_three_members_whose_commits_are_counted(server: Running) -> None:
    with members(server.bootstrap, "three", 3) as consumers:
        for consumer in consumers:
            commit(consumer)
        scrape = server.until(lambda scrape: scrape("kcoord_requests_total", api="Heartbeat", error="NONE") > 0)
        assert scrape.by("kcoord_groups", "state") == {"Stable": 1}
        assert scrape("kcoord_group_members") == 3
        assert scrape("kcoord_offsets_committed_total") == PARTITIONS
        assert scrape("kcoord_requests_total", api="OffsetCommit", error="NONE") == 3
        assert 1 <= scrape("kcoord_rebalances_total", cause="joined") <= 3
        assert scrape("kcoord_group_events_total", event="joined") == 3
    scrape = server.until(lambda scrape: scrape("kcoord_groups", state="Empty") == 1)
    assert scrape("kcoord_group_members") == 0
    assert scrape("kcoord_group_events_total", event="left") == 3
    assert scrape("kcoord_rebalances_total", cause="left") >= 1


def test_a_server_is_alive_and_ready(server: Running) -> None:
    assert ask(server.path("/healthz")).status == 200
    assert (ask(server.path("/readyz")).status, ask(server.path("/readyz")).text) == (200, "ready\n")


def test_a_proxy_tells_of_what_it_passes_on_and_of_groups_on_the_way(server: Running) -> None:
    options = ("--listen", "127.0.0.1:0", "--port-base", "0", "--deny", "OffsetDelete")
    with running("proxy", "--upstream", server.bootstrap, *options) as proxy:
        assert ask(proxy.path("/readyz")).text == "ready\n"
        with members(proxy.bootstrap, "through", 2) as consumers:
            commit(consumers[0])
            scrape = proxy.scrape()
            assert scrape("kcoord_groups", state="Stable") == 1
            assert scrape("kcoord_group_members") == 2
            assert scrape("kcoord_rebalances_total", cause="joined") >= 1
            assert scrape("kcoord_proxy_requests_total", api="OffsetCommit", by="upstream") == 1
            assert scrape("kcoord_proxy_request_duration_seconds_count", api="OffsetCommit") == 1
            assert scrape("kcoord_connections_open") >= 2
            assert scrape("kcoord_proxy_brokers", state="live") == 1
            assert scrape("kcoord_proxy_passed_bytes_total", to="upstream") > 0
        host, _, port = proxy.bootstrap.rpartition(":")
        with Client(host, int(port)) as client:
            client.ask(ApiKey.OFFSET_DELETE, 0, group_id="through", topics=[])
        scrape = proxy.scrape(OPEN_METRICS)
        assert scrape("kcoord_proxy_guard_refusals_total", reason="denied", api="OffsetDelete") == 1
        assert scrape("kcoord_proxy_requests_total", api="OffsetDelete", by="proxy") == 1
        names = {name for name in scrape.families if name.startswith("kcoord_")}
        assert names >= {family.name for family in (*catalogue.OF_ALL, *catalogue.OF_PROXY, *catalogue.OF_GROUPS)}


def test_a_proxy_that_coordinates_counts_as_a_server_does(server: Running) -> None:
    options = ("--listen", "127.0.0.1:0", "--port-base", "0", "--coordinate", "local")
    with running("proxy", "--upstream", server.bootstrap, *options) as proxy:
        with members(proxy.bootstrap, "here", 1) as consumers:
            commit(consumers[0])
            scrape = proxy.scrape(OPEN_METRICS)
            assert scrape.by("kcoord_groups", "state") == {"Stable": 1}
            assert scrape("kcoord_group_members") == 1
            assert scrape("kcoord_offsets_committed_total") == PARTITIONS
            assert scrape("kcoord_requests_total", api="OffsetCommit", error="NONE") == 1
            assert scrape("kcoord_proxy_requests_total", api="OffsetCommit", by="local") == 1
            assert scrape("kcoord_proxy_requests_total", api="OffsetCommit", by="upstream") == 0
            assert scrape("kcoord_journal_written_bytes_total") > 0
            names = {name for name in scrape.families if name.startswith("kcoord_")}
        assert names == {family.name for family in catalogue.FAMILIES} - {catalogue.HELD.name}


def test_a_proxy_is_alive_and_not_ready_while_it_waits_for_its_upstream() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        upstream = f"127.0.0.1:{nobody.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kcoord.commands", "proxy", "--upstream", upstream, "--wait"]
    command += ["--listen", "127.0.0.1:0", "--port-base", "0", "--metrics", str(port)]
    process = CapturedProcess(command, name="kcoord proxy")
    try:
        deadline = time.monotonic() + 60
        while "metrics at=" not in process.stderr():
            assert time.monotonic() < deadline, process.output_tail()
            time.sleep(0.05)
        assert ask(f"http://127.0.0.1:{port}/healthz").status == 200
        refused = ask(f"http://127.0.0.1:{port}/readyz")
        assert (refused.status, refused.text) == (503, "no broker of the upstream cluster answers\n")
        assert Scrape(f"http://127.0.0.1:{port}/metrics")("kcoord_ready") == 0
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nowhere", "'nowhere' is not HOST:PORT or PORT"),
        (":9464", "':9464' is not HOST:PORT or PORT"),
        ("http://localhost:9464", "is not HOST:PORT or PORT"),
        ("127.0.0.1:70000", "port 70000 is above 65535"),
    ],
)
def test_a_place_that_is_none_is_a_matter_of_usage(text: str, message: str) -> None:
    ran = CliRunner().invoke(cli, ["serve", "--metrics", text])
    assert ran.exit_code == 2
    assert message in ran.output


@pytest.mark.parametrize("command", [("serve", "--listen", "127.0.0.1:0"), ("proxy", "--upstream", "127.0.0.1:1")])
def test_a_port_that_is_taken_is_said_in_one_line(command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = _run(*command, "--metrics", str(port))
    assert ran.returncode == 1
    assert ran.stderr == f"kcoord: cannot listen on 127.0.0.1:{port} for --metrics: Address already in use\n"


def test_who_does_not_ask_for_metrics_imports_nothing_of_them() -> None:
    code = "import sys, kcoord.server.main, kcoord.proxy.main, kcoord.server.groups.group_runtime\n"
    code += "names = ('aiohttp', 'prometheus_client', 'kcoord.server.metrics.instrumented_runtime')\n"
    code += "print([name for name in names if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kcoord.commands", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
