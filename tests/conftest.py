"""Fixtures and hooks for all tests."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings as hypothesis_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each worker of pytest-xdist has its own session fixtures. Files that need the same slow fixture go to the same worker:
# those whose paths, from tests/ on, begin with one of these texts. The first group that fits counts.
_TOGETHER: Final = {
    "Spark in processes of its own": (
        "commands/pipeline/test_interrupts",
        "integration/pipeline/test_cluster",
        "integration/pipeline/test_connector",
        "integration/pipeline/test_follow",
    ),
    "Spark": ("pipeline/", "commands/pipeline/", "integration/pipeline/"),
    "a secure Kafka": (
        "integration/security/test_secure_connections",
        "integration/groups/test_like_kafka",
        "integration/security/test_login_like",
    ),
    "a Kafka of 3 brokers": ("integration/proxy/test_forwarding", "integration/rebalances/test_by_proxy"),
    "a Kafka for groups": ("differential/groups/",),
    "a pair": ("differential/",),
}
# Slow tests begin first, so that no worker is busy for minutes after the others have ended.
_FIRST: Final = (*_TOGETHER, "integration", "durability", "test_layout.py", "simulation", "hostile")

# A busy machine may stall for a second at any time, so examples have no deadline.
hypothesis_settings.register_profile(
    "kcoord", deadline=None, max_examples=int(os.environ.get("KCOORD_TEST_EXAMPLES", "50"))
)
hypothesis_settings.load_profile("kcoord")

# pytest-xdist gives its workers the width of the terminal; commands whose output is no terminal must not wrap to it.
os.environ.pop("COLUMNS", None)

# A shell starts background jobs with Ctrl-C ignored, and all processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the tests, since workers get files in this order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(item.path.relative_to(Path(__file__).parent).as_posix()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Schedules like `--dist loadfile`, with some files together."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class TogetherOrByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0].removeprefix("tests/"))

    return TogetherOrByFile(config, log)


def _group(file: str) -> str:
    return next((group for group, beginnings in _TOGETHER.items() if file.startswith(beginnings)), file)


def _rank(file: str) -> int:
    group = _group(file).partition("/")[0]
    return _FIRST.index(group) if group in _FIRST else len(_FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Checks that a test file leaves no librdkafka client behind: it would print to the standard error of later tests
    that its broker is gone. Clients that only an exception's traceback refers to are collected first."""
    yield
    if (nextitem is None or nextitem.path != item.path) and _librdkafka_clients():
        if isinstance(item, pytest.Function):
            item.funcargs.clear()
        gc.collect()
        left = _librdkafka_clients()
        assert not left, f"the tests of {item.path.name} leave {len(left)} clients of librdkafka behind"


def _librdkafka_clients() -> list[str]:
    """Returns the librdkafka clients of this process: each has a thread of this name."""
    names = []
    for thread in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            names.append(thread.read_text().strip())
    return [name for name in names if name == "rdk:main"]


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark session for all tests of a process: starting it takes longer than most of them."""
    from kcoord.pipeline.session import SparkConfig, open_session

    settings = {
        # Small frames are done before generated code would pay off.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "1g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    with open_session(SparkConfig(master="local[1]", settings=settings)) as session:
        yield session
