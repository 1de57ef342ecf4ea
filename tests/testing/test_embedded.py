import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kcoord.testing import embedded
from kcoord.testing.embedded import EmbeddedCluster, serve_command
from kcoord.testing.errors import StartError

from .test_process import is_alive

READY = '{"kcoord": "serve/v1", "bootstrap": "127.0.0.1:4123,127.0.0.1:4124", "cluster_id": "c", "pid": 1}'
SERVE = f"""
import sys, time
print("log line", file=sys.stderr)
print({READY!r}, flush=True)
time.sleep(60)
"""


@pytest.fixture
def fake_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces `kcoord serve` by a script."""
    script = tmp_path / "serve.py"
    monkeypatch.setattr(embedded, "serve_command", lambda *_: [sys.executable, str(script)])
    return script


def test_the_command_line_holds_topics_and_settings() -> None:
    command = serve_command(3, {"orders": 6, "t": 1}, {"group.max.size": "4"})
    assert command[:4] == [sys.executable, "-m", "kcoord.commands", "serve"]
    assert " ".join(command[4:]) == (
        "--listen 127.0.0.1:0 --brokers 3 --topic orders:6 --topic t:1 --set group.max.size=4 -o json"
    )
    command = serve_command(1, {}, {}, Path("data"), True)
    assert " ".join(command[4:]) == "--listen 127.0.0.1:0 --brokers 1 --data-dir data --fsync -o json"


def test_the_handle_knows_where_the_cluster_is(fake_server: Path) -> None:
    fake_server.write_text(SERVE)
    with EmbeddedCluster() as cluster:
        assert cluster.bootstrap == "127.0.0.1:4123,127.0.0.1:4124"
        assert cluster.cluster_id == "c"
        assert is_alive(cluster.pid)
    assert not is_alive(cluster.pid)
    assert cluster.log() == "log line\n"


def test_a_server_that_ends_at_once_shows_what_it_said(fake_server: Path) -> None:
    fake_server.write_text("import sys; sys.exit('no such setting')")
    with pytest.raises(StartError, match=r"(?s)exit code 1.*no such setting"):
        EmbeddedCluster().start()


def test_a_server_that_says_nothing_is_not_waited_for_forever(fake_server: Path) -> None:
    fake_server.write_text("import time; time.sleep(60)")
    with pytest.raises(StartError, match=r"kcoord serve has not said .* within 0\.2 s"):
        EmbeddedCluster(start_timeout=0.2).start()


def test_a_setting_that_kcoord_refuses_is_named() -> None:
    with pytest.raises(StartError, match=r"no setting 'no\.such'(?s:.*)the command was: .* --set no\.such=1"):
        EmbeddedCluster(settings={"no.such": "1"}).start()


def test_kcoord_serves_the_topics_that_were_asked_for() -> None:
    with EmbeddedCluster(brokers=2, topics={"orders": 3}, settings={"num.partitions": "2"}) as cluster:
        metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=60)
        assert str(metadata.cluster_id) == cluster.cluster_id
        assert len(metadata.brokers) == 2
        assert len(metadata.topics["orders"].partitions) == 3
        cluster.kill()
        assert not cluster.is_running
    assert not is_alive(cluster.pid)


def test_each_test_gets_a_cluster_of_its_own(kcoord_cluster: EmbeddedCluster) -> None:
    client = AdminClient({"bootstrap.servers": kcoord_cluster.bootstrap})
    assert len(client.list_topics(timeout=60).brokers) == 1
