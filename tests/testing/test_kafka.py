import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kcoord.testing import node
from kcoord.testing.errors import StartError
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools

from .test_process import is_alive, wait_until_gone

# java_tools skips if no Kafka is wanted, fails if none is available, and resolves the jars.
pytestmark = pytest.mark.usefixtures("java_tools")

PARENT = """
import time
from kcoord.testing.kafka import KafkaCluster
with KafkaCluster() as kafka:
    print(kafka.brokers[0].pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that all temporary folders are made in."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("KCOORD_TEST_KEEP", raising=False)
    return folder


def test_a_cluster_with_a_chosen_property_serves_and_leaves_nothing_behind(
    temporary: Path, java_tools: JavaTools
) -> None:
    with KafkaCluster(properties={"group.max.size": "4"}) as kafka:
        [broker] = kafka.brokers
        assert broker.pid
        assert is_alive(broker.pid)
        assert "Kafka Server started" in broker.log_path.read_text()
        assert broker.data_dir.joinpath("meta.properties").exists()
        shown = java_tools.run("configs", "--bootstrap-server", kafka.bootstrap, "--broker", "1", "--describe", "--all")
        assert re.search(r"\bgroup\.max\.size=4\b", shown.stdout), shown
    assert not is_alive(broker.pid)
    assert not list(temporary.iterdir())
    assert "shut down" in kafka.log_tail()


def test_clusters_run_side_by_side_and_a_killed_broker_comes_back_with_its_data(java_tools: JavaTools) -> None:
    with KafkaCluster() as one, KafkaCluster() as other:
        java_tools.run("topics", "--bootstrap-server", one.bootstrap, "--create", "--topic", "only-in-one")
        before = one.brokers[0]
        one.kill(1)
        assert one.brokers[0].pid is None
        one.restart(1)
        assert one.brokers[0].port == before.port
        assert one.brokers[0].pid != before.pid
        assert "only-in-one" in AdminClient({"bootstrap.servers": one.bootstrap}).list_topics(timeout=60).topics
        assert "only-in-one" not in AdminClient({"bootstrap.servers": other.bootstrap}).list_topics(timeout=60).topics


def test_three_brokers_serve_on_while_one_is_killed_and_restarted(java_tools: JavaTools) -> None:
    with KafkaCluster(brokers=3) as kafka:
        assert len(kafka.bootstrap.split(",")) == 3
        kafka.kill(2)
        created = java_tools.run(
            "topics", "--bootstrap-server", kafka.bootstrap, "--create", "--topic", "t", "--replication-factor", "2"
        )
        assert created.exit_code == 0, created
        kafka.restart(2)
        second = kafka.bootstrap.split(",")[1]
        assert set(AdminClient({"bootstrap.servers": second}).list_topics(timeout=60).brokers) == {1, 2, 3}


def test_the_log_of_a_broker_that_does_not_start_is_shown(temporary: Path) -> None:
    with pytest.raises(StartError, match=r"Invalid value many for configuration group\.max\.size"):
        KafkaCluster(properties={"group.max.size": "many"}).start()
    assert not list(temporary.iterdir())


def test_the_log_of_a_broker_that_is_not_ready_in_time_is_shown(temporary: Path) -> None:
    with pytest.raises(StartError, match=r"(?s)not ready in time: none answered\nthe end of .*kafka\.log.*INFO"):
        KafkaCluster(start_timeout=0).start()
    assert not list(temporary.iterdir())


def test_a_port_that_is_taken_meanwhile_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as squatter:
        taken = squatter.getsockname()[1]
        honest = node.free_ports
        choices = iter([lambda count: [taken, *honest(count - 1)]])
        monkeypatch.setattr(node, "free_ports", lambda count: next(choices, honest)(count))
        with KafkaCluster() as kafka:
            assert kafka.brokers[0].port != taken


def test_a_proxy_in_front_is_what_clients_are_sent_to(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_TEST_KEEP", "1")
    with KafkaCluster(advertised={1: "127.0.0.1:9"}) as kafka:
        broker = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}).list_topics(timeout=60).brokers[1]
        assert str(broker) == "127.0.0.1:9/1"
    assert "CLIENT://127.0.0.1:9," in next(temporary.glob("*/node-1/server.properties")).read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_killed_test_run_leaves_no_broker_behind(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        broker = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_until_gone(broker)
