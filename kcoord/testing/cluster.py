"""What every real Kafka of the tests can do; and a cluster that already runs."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from .errors import NotOurClusterError, NotReadyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker of a local Kafka cluster, as it was when `Cluster.brokers` was called."""

    node: int
    port: int
    pid: int | None
    """None while the broker is down."""
    log_path: Path
    data_dir: Path


class Cluster(ABC):
    """A real Kafka cluster for tests, as a context manager that starts and stops it; its brokers are numbered from 1.
    Subclasses run it from jars or in Docker, or use an existing one."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The bootstrap servers for clients: host:port,host:port."""

    @property
    @abstractmethod
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers with their process ids, ports, logs and data dirs."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Whether start() was called and stop() was not."""

    @abstractmethod
    def start(self) -> Self:
        """Starts the cluster and waits until it is ready; does nothing if it runs already."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the cluster and leaves nothing behind; may be called again."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """Kills one broker by SIGKILL."""

    @abstractmethod
    def restart(self, node: int) -> None:
        """Starts a broker again, on the same port with the same data, and waits until it serves."""

    @abstractmethod
    def log_tail(self) -> str:
        """Returns the last lines that the brokers logged, also after stop()."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class ExistingCluster(Cluster):
    """A cluster that somebody else started: tests may use it, but not stop it, kill its brokers or read its logs."""

    def __init__(
        self,
        bootstrap: str,
        *,
        brokers: int = 1,
        properties: Mapping[str, str] | None = None,
        advertised: Mapping[int, str] | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._wanted_brokers = brokers
        if properties:
            raise self._refusal(f"cannot be given server properties ({', '.join(sorted(properties))})")
        if advertised:
            raise self._refusal("cannot be told to advertise other addresses")

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers that were given."""
        return self._bootstrap

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """Raises NotOurClusterError: the brokers' processes cannot be seen."""
        raise self._refusal("does not show the process ids, logs and data dirs of its brokers")

    @property
    def is_running(self) -> bool:
        """True: the cluster runs as long as the tests do."""
        return True

    def start(self) -> Self:
        """Waits until the cluster's brokers answer; it runs already."""
        wait_for_metadata(self._bootstrap, brokers=self._wanted_brokers, deadline=time.monotonic() + 10)
        return self

    def stop(self) -> None:
        """Leaves the cluster running, as it was found."""

    def kill(self, node: int) -> None:
        """Raises NotOurClusterError: the brokers may not be killed."""
        raise self._refusal(f"has a broker {node} that is not ours to kill")

    def restart(self, node: int) -> None:
        """Raises NotOurClusterError: the brokers may not be restarted."""
        raise self._refusal(f"has a broker {node} that is not ours to restart")

    def log_tail(self) -> str:
        """Returns an empty text, since the brokers' logs cannot be read."""
        return ""

    def _refusal(self, why: str) -> NotOurClusterError:
        return NotOurClusterError(
            f"KCOORD_TEST_BOOTSTRAP points at {self._bootstrap}, a cluster that {why}: "
            "unset it to let the tests start a Kafka of their own"
        )


def no_check() -> None:
    """Does nothing: the default `check` of wait_for_metadata, for clusters whose processes cannot be seen."""


def wait_for_metadata(
    address: str,
    *,
    brokers: int,
    deadline: float,
    cluster_id: str | None = None,
    check: Callable[[], None] = no_check,
) -> None:
    """Waits until the broker at this address reports so many live brokers: an open port alone serves nothing yet.
    Raises NotReadyError at the monotonic instant `deadline`.

    The cluster's id is compared because another process may have taken the port. `check` raises if waiting is
    pointless.
    """
    client = AdminClient(
        {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
    )
    while True:
        check()
        reply = _ask(client)
        if reply and reply.brokers >= brokers and cluster_id in (None, reply.cluster_id):
            return
        if time.monotonic() > deadline:
            alive = f"{reply.brokers} of {brokers} brokers" if reply else "none"
            raise NotReadyError(f"Kafka at {address} is not ready in time: {alive} answered")
        time.sleep(0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetadataReply:
    """What a broker's metadata response contains."""

    brokers: int
    cluster_id: str | None


def _ask(client: AdminClient) -> _MetadataReply | None:
    try:
        metadata = client.list_topics(timeout=0.5)
    except KafkaException:
        return None
    return _MetadataReply(brokers=len(metadata.brokers), cluster_id=metadata.cluster_id)
