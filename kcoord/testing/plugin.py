"""The pytest plugin: a real Kafka and an embedded kcoord as fixtures.

| fixture                | scope    | gives                                                                         |
|------------------------|----------|-------------------------------------------------------------------------------|
| kafka_cluster          | session  | a real Kafka with one broker, shared by all tests                             |
| kafka_cluster_factory  | session  | `factory(brokers=3, properties={…}, advertised={…})`: a separate cluster      |
| java_tools             | session  | Kafka's own tools and Java clients                                            |
| kcoord_cluster         | function | `kcoord serve` with one broker                                                |
| kcoord_cluster_factory | session  | `factory(brokers=3, topics={"t": 3}, settings={…})`                           |
| kcoord_proxy_factory   | session  | `factory(kafka.bootstrap, "--read-only", …)`: `kcoord proxy` in front of it   |

A factory's cluster is started; stop it by a `with`, or leave that to the end of the session. When a test that used a
cluster fails, its report has the ends of the logs of all clusters that run.

Every pytest run of everyone who has kcoord installed imports this file: only the fixtures import what is heavy.
"""

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcoord.testing.cluster import Cluster
    from kcoord.testing.embedded import EmbeddedCluster
    from kcoord.testing.proxy import ProxyProcess
    from kcoord.testing.tools import JavaTools

SKIP_NOTICE = "KCOORD_TEST_NO_KAFKA=1: tests against the real Kafka are left out"
CLUSTER_FIXTURES = {
    "kafka_cluster",
    "kafka_cluster_factory",
    "kcoord_cluster",
    "kcoord_cluster_factory",
    "kcoord_proxy_factory",
}

_opened = pytest.StashKey[list["Cluster | EmbeddedCluster | ProxyProcess"]]()


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory: "Callable[..., Cluster]") -> "Cluster":
    """A real Kafka with one broker, shared by all tests of the session."""
    return kafka_cluster_factory()


@pytest.fixture(scope="session")
def kafka_cluster_factory(pytestconfig: pytest.Config) -> "Iterator[Callable[..., Cluster]]":
    """Starts real Kafka clusters: factory(brokers=1, properties={…}, advertised={node: "host:port"})."""
    _skip_without_kafka()
    from kcoord.testing.choice import choose_cluster

    yield from _factory(choose_cluster, pytestconfig)


@pytest.fixture(scope="session")
def java_tools() -> "JavaTools":
    """Kafka's own tools and Java clients, by short name or class name."""
    _skip_without_kafka()
    from kcoord.testing.errors import FixtureError
    from kcoord.testing.tools import JavaTools

    try:
        return JavaTools()
    except FixtureError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def kcoord_cluster(kcoord_cluster_factory: "Callable[..., EmbeddedCluster]") -> "Iterator[EmbeddedCluster]":
    """`kcoord serve` with one broker, for one test."""
    with kcoord_cluster_factory() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kcoord_cluster_factory(pytestconfig: pytest.Config) -> "Iterator[Callable[..., EmbeddedCluster]]":
    """Starts `kcoord serve`: factory(brokers=1, topics={"t": 3}, settings={…})."""
    from kcoord.testing.embedded import EmbeddedCluster

    yield from _factory(EmbeddedCluster, pytestconfig)


@pytest.fixture(scope="session")
def kcoord_proxy_factory(pytestconfig: pytest.Config) -> "Iterator[Callable[..., ProxyProcess]]":
    """Starts `kcoord proxy`: factory(upstream, "--option", …)."""
    from kcoord.testing.proxy import ProxyProcess

    yield from _factory(ProxyProcess, pytestconfig)


def pytest_report_header() -> str | None:
    """Pytest hook: returns a notice for the head of the run if the tests against a real Kafka are left out."""
    return SKIP_NOTICE if _without_kafka() else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Pytest hook: writes a notice at the end of the run if the tests against a real Kafka were left out."""
    if _without_kafka():
        terminalreporter.write_line(SKIP_NOTICE, yellow=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Pytest hook: forgets the clusters that earlier tests have stopped, since their logs do not concern this test."""
    _forget_stopped(item.config.stash.get(_opened, []))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Pytest hook: attaches the logs of running clusters to the report of a test that used one and failed."""
    report = yield
    if report.failed and CLUSTER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        for cluster in item.config.stash.get(_opened, []):
            report.sections.append((f"log of {type(cluster).__name__} {cluster.bootstrap}", cluster.log_tail()))
    return report


def _factory(build: Callable[..., Any], config: pytest.Config) -> Iterator[Callable[..., Any]]:
    from kcoord.testing.errors import FixtureError

    opened = config.stash.setdefault(_opened, [])
    ours: list[Any] = []

    def open_cluster(*arguments: Any, **options: Any) -> Any:
        try:
            cluster = build(*arguments, **options).start()
        except FixtureError as error:
            pytest.fail(str(error), pytrace=False)
        _forget_stopped(ours)
        ours.append(cluster)
        opened.append(cluster)
        return cluster

    yield open_cluster
    with ExitStack() as stack:  # stops each one, even if stopping another fails
        for cluster in ours:
            stack.callback(cluster.stop)


def _forget_stopped(clusters: list[Any]) -> None:
    clusters[:] = [cluster for cluster in clusters if cluster.is_running]


def _skip_without_kafka() -> None:
    if _without_kafka():
        pytest.skip(SKIP_NOTICE)


def _without_kafka() -> bool:
    return os.environ.get("KCOORD_TEST_NO_KAFKA") == "1"
