"""Starts Spark: embedded (`local[*]`) unless a master is named; explains in one line why it cannot start.

What can be known to fail is checked before Spark is started, since a start takes seconds and fails with pages of Java:
whether there is a Java that is new enough, and whether the master accepts connections. What Spark and its JVM print
goes to a file, unless the user wants to see it; after a failure that nobody foresaw the file stays and is named.

Under spark-submit the JVM runs already, with its own settings and its own output: both are left alone. Only the time
zone is always UTC, because days and times of the tables depend on it.

An embedded Spark is tuned by how much there is to read. For a small input nearly all time goes into preparation:
plans, and code that is generated, compiled, and run for a moment. So the JVM uses only its quick compiler (the second
compiler took a third of all processor time), shuffles have two partitions, and plans are not adapted between their
stages.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kcoord.exceptions import LocalFailure
from kcoord.pipeline.errors import UnrecognizedFailure, is_from_spark, summarize_error
from kcoord.pipeline.interrupting import interrupt_handler

__all__ = [
    "NoMaster",
    "NoSpark",
    "SparkConfig",
    "SparkSession",
    "check_java",
    "check_master",
    "check_spark",
    "failure_in_log",
    "open_session",
    "settings_for",
]

OLDEST_JAVA: Final = 17
_LOCAL: Final = "local[*]"
_COUNT: Final = r"\s*[1-9]\d*\s*"
_MASTER: Final = re.compile(
    rf"local(\[(\*|{_COUNT})(,{_COUNT})?\])?|local-cluster\[{_COUNT},{_COUNT},{_COUNT}\]|yarn|k8s://.+|spark://.+"
)
_ADDRESS: Final = re.compile(r"(?P<host>[^,:]+):(?P<port>\d{1,5})")
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_CONNECT_TIMEOUT: Final = 5.0  # seconds for a master to take a connection
_GATEWAY_PORT_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"

_EXITED: Final = "JAVA_GATEWAY_EXITED"
_NOISE_LINE: Final = re.compile(
    r"WARNING: |Picked up |NOTE: |Using |Setting |To adjust |\S+ \S+ (WARN|INFO) |Error occurred during initialization"
)
"""Matches log lines that every start writes, or that come before the line with the reason."""
_UNRESOLVED: Final = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): not found")
"""Matches Ivy's message about `spark.jars.packages` that it cannot find, at the end of a page."""

_TIME_ZONE: Final = "spark.sql.session.timeZone"
_UTC: Final = "UTC"

_SETTINGS: Final[Mapping[str, str]] = {
    # One writer for each day instead of a sort by days: a log has few days at a time.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    # Our rows have at most a few KiB; larger batches of Arrow only cost memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
}
"""Settings that apply unless whoever starts Spark has set them."""
_ON_LOOPBACK: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_EMBEDDED: Final[Mapping[str, str]] = {
    **_ON_LOOPBACK,
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
_SMALL: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Settings on top of `_EMBEDDED` if there is little to read."""
SMALL_BYTES: Final = 64 * 1000 * 1000
"""A log of up to this many bytes is small."""


class NoSpark(LocalFailure, RuntimeError):
    """Raised when Spark cannot be started, or is not installed."""


class NoMaster(NoSpark):
    """Raised when the text of `--master` is not the address of a Spark master."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """How the Spark session is to be opened: its master, settings, and whether the user sees Spark's log."""

    master: str | None = None
    """None means spark-submit's master, or an embedded Spark."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that override ours."""
    log_bytes: int | None = None
    """About how many bytes of log are read, or have become the tables that are read; None if unknown."""
    shows_spark_log: bool = False


@contextmanager
def open_session(config: SparkConfig, environment: Mapping[str, str] = os.environ) -> Iterator[SparkSession]:
    """Opens a Spark session for the `with` block, or yields the one that this process has already. Raises NoSpark."""
    check_spark(config, environment)
    is_submitted = _GATEWAY_PORT_VARIABLE in environment
    master = config.master or (None if is_submitted else _LOCAL)
    if (existing := SparkSession.getActiveSession()) is not None:
        with _in_utc(existing):
            yield existing
        return
    with (
        _output_redirected(shows_spark_log=config.shows_spark_log or is_submitted) as redirect,
        interrupt_handler() as handler,
    ):
        session = _start(master, config, redirect.path)
        if handler is not None:
            handler.on_started()
        redirect.stop()
        try:
            yield session
        finally:
            if handler is None or not handler.is_interrupted:
                _stop(session)


def check_spark(config: SparkConfig, environment: Mapping[str, str] = os.environ) -> None:
    """Checks the master and Java before Spark is started, which takes seconds. Raises NoSpark, or NoMaster for a text
    that is no master."""
    check_master(config.master, environment)
    is_there = _GATEWAY_PORT_VARIABLE in environment or SparkSession.getActiveSession() is not None
    if not is_there:
        check_java(environment)


def check_master(master: str | None, environment: Mapping[str, str]) -> None:
    """Checks that the address of a Spark master is well-formed and, if it is a standalone one, that it accepts
    connections. Raises NoSpark."""
    if master is None:
        return
    if not _MASTER.fullmatch(master):
        raise NoMaster(f"--master {master}: say local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT")
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & environment.keys():
        raise NoSpark(
            "--master yarn: set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder of the cluster's configuration"
        )
    if master.startswith("spark://"):
        _check_standalone(master)


def _check_standalone(master: str) -> None:
    addresses = [_ADDRESS.fullmatch(each) for each in master.removeprefix("spark://").split(",")]
    problems = []
    for address in addresses:
        if address is None:
            raise NoMaster(f"--master {master}: say spark://HOST:PORT, several with commas between")
        try:
            socket.create_connection((address["host"], int(address["port"])), _CONNECT_TIMEOUT).close()
        except (OSError, OverflowError) as error:
            problems.append(getattr(error, "strerror", None) or str(error))
        else:
            return
    raise NoSpark(f"no Spark master answers at {master}: {problems[0]}")


def check_java(environment: Mapping[str, str]) -> None:
    """Checks that the Java that Spark will use is there and new enough: JAVA_HOME's, or that of the path. Raises
    NoSpark."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        raise NoSpark(
            f"there is no Java: Spark needs {OLDEST_JAVA} or newer; install it, or set JAVA_HOME to its folder"
        )
    try:
        output = subprocess.run([java, "-version"], capture_output=True, timeout=60).stderr.decode(errors="replace")  # noqa: S603
    except OSError as error:
        raise NoSpark(f"Java cannot be run: JAVA_HOME is {home}, and {java}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise NoSpark(f"Java does not answer: {java} -version") from None
    version = _JAVA_VERSION.search(output)
    if version is None:
        raise NoSpark(f"{java} does not say which Java it is: Spark needs {OLDEST_JAVA} or newer")
    if int(version[1]) < OLDEST_JAVA:
        where = "JAVA_HOME" if home else "the path"
        raise NoSpark(f"Java {version[1]} is too old: Spark needs {OLDEST_JAVA} or newer; {where} leads to {java}")


def _start(master: str | None, config: SparkConfig, log: Path | None) -> SparkSession:
    builder = SparkSession.builder.appName("kcoord pipeline")
    for key, value in {**settings_for(master, config.log_bytes), **config.settings}.items():
        builder = builder.config(key, value)
    if master is not None:
        builder = builder.master(master)
    _choose_python(config.settings)
    try:
        session = builder.getOrCreate()
        session.conf.set(_TIME_ZONE, _UTC)
        given = session.sparkContext.getConf()
        for key, value in _SETTINGS.items():
            if not given.contains(key):
                session.conf.set(key, value)
        return session
    except Exception as error:
        why = failure_in_log(log) if log and _EXITED in str(error) else None
        where = f"; Spark's log is {log}" if log else ""
        raise NoSpark(f"Spark does not start: {(why or summarize_error(error)).rstrip('.')}{where}") from error


def _stop(session: SparkSession) -> None:
    # The JVM may have died; the job that used it has raised an error already.
    with suppress(Py4JError, OSError), warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        session.stop()


@contextmanager
def _in_utc(session: SparkSession) -> Iterator[None]:
    """Sets a session that somebody else opened to UTC, and restores its time zone afterwards."""
    before = session.conf.get(_TIME_ZONE)
    session.conf.set(_TIME_ZONE, _UTC)
    try:
        yield
    finally:
        with suppress(Py4JError, OSError):
            session.conf.set(_TIME_ZONE, before or _UTC)


def settings_for(master: str | None, log_bytes: int | None) -> Mapping[str, str]:
    """Returns the Spark settings that must be set before Spark starts, for this master and for a log of so many bytes
    (None: unknown). Under spark-submit (no master) there are none: it has its own."""
    if master is None:
        return {}
    if master.startswith("local"):
        is_small = log_bytes is not None and log_bytes <= SMALL_BYTES
        return {**_EMBEDDED, **_SMALL} if is_small else _EMBEDDED
    # A master on loopback has its workers on this machine, so the driver needs no other address.
    hosts = [each.rpartition(":")[0] for each in master.removeprefix("spark://").split(",")]
    is_loopback = master.startswith("spark://") and all(_LOOPBACK.fullmatch(host) for host in hosts)
    return _ON_LOOPBACK if is_loopback else {}


def _choose_python(settings: Mapping[str, str]) -> None:
    """Makes workers use this process's Python, unless a setting names another. Spark reads only the environment."""
    if "spark.pyspark.python" in settings:
        os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def failure_in_log(log: Path) -> str | None:
    """Returns the reason in Spark's log why the JVM ended while it was starting: packages that are missing, or the
    first line that is not noise; None if there is none."""
    text = log.read_text(errors="replace")
    if missing := [":".join(found) for found in dict.fromkeys(_UNRESOLVED.findall(text))]:
        return f"spark.jars.packages: {', '.join(missing)} cannot be found in any repository that Spark asks"
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not _NOISE_LINE.match(line)), None)


@dataclass(slots=True)
class _OutputRedirect:
    """Redirects standard output and error to a file; without a path it does nothing."""

    path: Path | None
    _saved: tuple[int, ...] = ()

    def begin(self) -> None:
        if self.path is None:
            return
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (os.dup(1), os.dup(2))
        with self.path.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    def stop(self) -> None:
        """Restores the outputs of this process; the JVM that was started meanwhile still writes to the file."""
        for number, saved in enumerate(self._saved, start=1):
            os.dup2(saved, number)
            os.close(saved)
        self._saved = ()


@contextmanager
def _output_redirected(*, shows_spark_log: bool) -> Iterator[_OutputRedirect]:
    """Redirects the outputs while the JVM is started: it inherits those that its parent has then."""
    if shows_spark_log:
        yield _OutputRedirect(None)
        return
    handle, name = tempfile.mkstemp(prefix="kcoord-spark-", suffix=".log")
    os.close(handle)
    redirect = _OutputRedirect(log := Path(name))
    redirect.begin()
    is_log_needed = False
    try:
        yield redirect
    except Exception as error:
        is_log_needed = _names_log(error, log)
        raise
    finally:
        redirect.stop()
        if not is_log_needed:
            log.unlink(missing_ok=True)


def _names_log(error: Exception, log: Path) -> bool:
    """Whether the log explains more than the error. If so, the error names the log."""
    if isinstance(error, UnrecognizedFailure):
        error.log = log
    elif is_from_spark(error):
        error.add_note(f"Spark's log is {log}")
    return isinstance(error, (NoSpark, UnrecognizedFailure)) or is_from_spark(error)
