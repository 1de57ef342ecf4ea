"""`kcoord serve` as a subprocess: a local cluster that is up in a moment and gone with the test."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .command import CommandProcess

READY = '"serve/v1"'

_IN_TESTS: Final = {"group.initial.rebalance.delay.ms": "0"}


class EmbeddedCluster(CommandProcess):
    """kcoord's own cluster for tests, `kcoord serve` as a subprocess, as a context manager.

    with EmbeddedCluster(topics={"orders": 3}, settings={"num.partitions": "6"}) as cluster: ...
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        fsync: bool = False,
        options: Sequence[str] = (),
        start_timeout: float = 30.0,
    ) -> None:
        """`topics` are partition counts by name; `settings` are Kafka's broker properties. Groups do not wait for
        further members, as with the real Kafka of a test, unless `group.initial.rebalance.delay.ms` is set. The
        content of the data dir is available to the next cluster that uses it; without a data dir all data end with
        the cluster. `options` are further options of `kcoord serve`, such as ("--rules", "rules.txt")."""
        command = serve_command(brokers, topics or {}, {**_IN_TESTS, **(settings or {})}, data_dir, fsync)
        super().__init__([*command, *options], name="kcoord serve", ready=READY, start_timeout=start_timeout)

    @property
    def cluster_id(self) -> str:
        """The cluster's id; empty before it has started."""
        return str(self.ready.get("cluster_id", ""))


def serve_command(
    brokers: int,
    topics: Mapping[str, int],
    settings: Mapping[str, str],
    data_dir: Path | None = None,
    fsync: bool = False,
) -> list[str]:
    """Returns the command line of `kcoord serve` on a free port; when the command is ready it prints one line of JSON
    with its address. `topics` are partition counts by name, `settings` Kafka's broker properties."""
    command = [sys.executable, "-m", "kcoord.commands", "serve", "--listen", "127.0.0.1:0", "--brokers", str(brokers)]
    for topic, partitions in topics.items():
        command += ["--topic", f"{topic}:{partitions}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    if fsync:
        command.append("--fsync")
    return [*command, "-o", "json"]
