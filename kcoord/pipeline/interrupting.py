"""Ctrl-C and SIGTERM while Spark is there: its JVM is ended first, then happens what always does.

To raise an exception alone does not do. While the JVM starts, pyspark would forget the process it has begun, which then
stays for ever. While a job runs, py4j is amid a call, and every call after it (those of a `finally:` too) waits for the
job. And pyspark's own handler makes such calls itself. Without a JVM all of them fail at once, and what they raise then
is not what happened: the signal is.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_GRACE: Final = 10.0  # seconds for the JVM to delete its temporary files
_PATIENCE: Final = 2 * _GRACE
_AGAIN: Final = 0.1


class Interrupts:
    """Told by signals, in the main thread."""

    def __init__(self) -> None:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self._is_starting = True
        self._is_over = threading.Event()
        self._told: signal.Signals | None = None
        self._ending = threading.Thread(target=self._end_jvm, daemon=True)

    @property
    def is_told(self) -> bool:
        return self._told is not None

    def take(self) -> None:
        """What is ignored (by nohup, of jobs in the background) stays ignored."""
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN if before is signal.SIG_IGN else self._hear)

    def started(self) -> None:
        """Spark is there. Raises what was held back so far."""
        self.take()  # again: pyspark has taken SIGINT
        self._is_starting = False
        if self._told is not None:
            self.happen()

    def happen(self) -> None:
        """What the signal does without us; the JVM has ended then."""
        assert self._told is not None
        self._ending.join(_PATIENCE)
        self.give_back()
        signal.raise_signal(self._told)

    def give_back(self) -> None:
        self._is_over.set()
        for number, before in self._before.items():
            if before is not None:  # one that was not set by Python
                signal.signal(number, before)

    def _hear(self, number: int, frame: object) -> None:
        if self._told is None:
            self._told = signal.Signals(number)
            self._ending.start()
        if not self._is_starting:
            self.happen()

    def _end_jvm(self) -> None:
        """In a thread of its own, which py4j gives a connection of its own."""
        gateway: Any = SparkContext._gateway
        while gateway is None and not self._is_over.wait(_AGAIN):  # pyspark tells it when the JVM has told its port
            gateway = SparkContext._gateway
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        if process is not None:
            _hush()
            _end(process)
            _forget()
        elif (context := SparkContext._active_spark_context) is not None:  # the JVM is spark-submit's
            with suppress(Exception):
                context.cancelAllJobs()


@contextmanager
def interrupts() -> Iterator[Interrupts | None]:
    """For the time that Spark starts and is there. None in other threads, which hear no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    taken = Interrupts()
    taken.take()
    try:
        yield taken
    except BaseException:
        if taken.is_told:
            taken.happen()
        raise
    finally:
        taken.give_back()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _hush() -> None:
    """The server that the JVM reports to would print a traceback when it is cut off."""
    server: Any = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _forget() -> None:
    """Who asks this process for another Spark gets another JVM."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
