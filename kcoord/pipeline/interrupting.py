"""Handles Ctrl-C and SIGTERM while Spark runs: its JVM is ended first, then the signal does what it always does.

Raising an exception alone is not enough. While the JVM starts, pyspark would forget the process that it has begun, and
that process would run for ever. While a job runs, py4j is in the middle of a call, and every later call (in a
`finally:` too) waits for the job; pyspark's own handler makes such calls. Once the JVM has ended, all these calls fail
at once, and the errors that they raise are not the reason why the program ends: the signal is.
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
_JOIN_TIMEOUT: Final = 2 * _GRACE
_POLL_INTERVAL: Final = 0.1


class InterruptHandler:
    """Handles SIGINT and SIGTERM while Spark starts and runs: it ends the JVM, in a thread, and then delivers the
    signal to the handler that was there before."""

    def __init__(self) -> None:
        self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self._is_starting = True
        self._is_over = threading.Event()
        self._received: signal.Signals | None = None
        self._ending = threading.Thread(target=self._end_jvm, daemon=True)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal has been received."""
        return self._received is not None

    def install(self) -> None:
        """Installs itself as the handler of the signals. A signal that is ignored (by nohup, or in a background job)
        stays ignored."""
        for number, before in self._previous.items():
            signal.signal(number, signal.SIG_IGN if before is signal.SIG_IGN else self._on_signal)

    def on_started(self) -> None:
        """Notes that Spark has started, and delivers a signal that came before."""
        self.install()  # again: pyspark has installed its own handler of SIGINT
        self._is_starting = False
        if self._received is not None:
            self.deliver()

    def deliver(self) -> None:
        """Waits until the JVM has ended, and delivers the received signal to the previous handler."""
        assert self._received is not None
        self._ending.join(_JOIN_TIMEOUT)
        self.restore()
        signal.raise_signal(self._received)

    def restore(self) -> None:
        """Restores the previous handlers of the signals."""
        self._is_over.set()
        for number, before in self._previous.items():
            if before is not None:  # None stands for a handler that Python did not install
                signal.signal(number, before)

    def _on_signal(self, number: int, frame: object) -> None:
        if self._received is None:
            self._received = signal.Signals(number)
            self._ending.start()
        if not self._is_starting:
            self.deliver()

    def _end_jvm(self) -> None:
        """Ends the JVM. It runs in its own thread, which gets its own py4j connection."""
        gateway: Any = SparkContext._gateway
        while gateway is None and not self._is_over.wait(
            _POLL_INTERVAL
        ):  # pyspark sets it once the JVM has reported its port
            gateway = SparkContext._gateway
        process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
        if process is not None:
            _silence_accumulator_server()
            _terminate(process)
            _reset_pyspark()
        elif (context := SparkContext._active_spark_context) is not None:  # spark-submit owns the JVM
            with suppress(Exception):
                context.cancelAllJobs()


@contextmanager
def interrupt_handler() -> Iterator[InterruptHandler | None]:
    """Handles SIGINT and SIGTERM while the `with` block starts and uses Spark. Yields None outside the main thread,
    which gets no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    handler = InterruptHandler()
    handler.install()
    try:
        yield handler
    except BaseException:
        if handler.is_interrupted:
            handler.deliver()
        raise
    finally:
        handler.restore()


def _terminate(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _silence_accumulator_server() -> None:
    """Silences the accumulator server, which would print a traceback when the JVM's connection breaks."""
    server: Any = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _reset_pyspark() -> None:
    """Resets pyspark, so that the next session of this process starts another JVM."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
