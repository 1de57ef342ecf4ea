"""Tests of what kcoord imports: help, completion and commands import nothing that they do not need."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.opening import open_cluster
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.admin.fake_cluster import LiveFixture, orders

HEAVY = {"asyncio", "concurrent.futures", "confluent_kafka", "cryptography", "kio", "rich", "ssl", "tomllib", "uvloop"}


def imported(*arguments: str) -> set[str]:
    """Returns the modules that `kcoord …` has imported when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(sys.modules)))\n"
        "from kcoord.commands.main import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    modules = set(done.stderr.split())
    assert "kcoord.commands.main" in modules
    return modules


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["groups", "--help"], ["offsets", "--help"], ["completion", "bash"]]
)
def test_what_needs_no_cluster_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not HEAVY & imported(*arguments)


def test_the_list_of_commands_is_told_without_loading_them() -> None:
    nouns = {f"kcoord.commands.{noun}" for noun in ("context", "demo", "groups", "log", "offsets", "serve")}
    assert not nouns & imported("--help")


def test_help_of_a_verb_that_reads_imports_no_event_loop_and_no_librdkafka() -> None:
    """kio may be imported: it has the error codes."""
    assert not {"asyncio", "confluent_kafka", "rich", "ssl", "uvloop"} & imported("groups", "describe", "--help")


@pytest.fixture(scope="module")
def cluster(kcoord_cluster_factory: Callable[..., EmbeddedCluster]) -> Iterator[EmbeddedCluster]:
    with kcoord_cluster_factory(topics={"orders": 1}) as cluster:
        with open_cluster(Connection(bootstrap=(cluster.bootstrap,))) as admin:
            admin.commit("g", {TopicPartition("orders", 0): Committed(0)})
        yield cluster


@pytest.mark.parametrize("verb", [["list"], ["list", "--names"], ["describe", "g"], ["lag", "--all-groups"]])
def test_reading_groups_imports_of_kio_the_error_codes_alone(verb: list[str], cluster: EmbeddedCluster) -> None:
    """kio's other classes take longer to import than a cluster takes to respond."""
    modules = imported("groups", *verb, "-b", cluster.bootstrap)
    assert {name for name in modules if name.startswith("kio.schema.")} == {"kio.schema.errors"}
    assert not {"asyncio", "confluent_kafka", "cryptography", "kio.serial", "rich", "ssl"} & modules


@pytest.mark.parametrize(
    "verb",
    [
        ["offsets", "reset", "g", "--topic", "orders", "--to", "latest", "--undo-dir"],
        ["offsets", "delete", "g", "--topic", "orders", "--undo-dir"],
        ["groups", "delete", "g", "--undo-dir"],
        ["groups", "remove-member", "members", "--all-members", "--reason"],
    ],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_changing_groups_imports_of_kio_the_error_codes_alone(
    verb: list[str], cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    with LiveFixture(cluster.bootstrap) as live:
        live.cluster.commit("g", {TopicPartition("orders", 0): Committed(1)})
        if "members" in verb:
            live.join("members", assignment=orders(0))
        modules = imported(*verb, str(tmp_path), "--execute", "-b", cluster.bootstrap)
    assert {name for name in modules if name.startswith("kio.schema.")} == {"kio.schema.errors"}
    assert not {"asyncio", "confluent_kafka", "cryptography", "kio.serial", "ssl"} & modules


def test_a_cluster_with_a_plain_name_is_reached_without_what_encodes_others(cluster: EmbeddedCluster) -> None:
    assert "encodings.idna" not in imported("groups", "list", "-b", cluster.bootstrap)
