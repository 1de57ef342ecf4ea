"""The librdkafka client that a cluster is accessed with: quiet, bounded in time, and with clear connect errors.

An operation that cannot reach a broker ends with "timed out" and no reason. The reason comes separately, to a callback
that runs while we poll. So this client polls while it waits, and raises the error that the callback recorded.
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kcoord.admin.cluster_client import Refused
from kcoord.admin.librdkafka.errors import bad_settings, cannot_connect, clean_message, without_secrets
from kcoord.admin.waiting import Waits
from kcoord.client.connect_errors import Disconnected, NoAnswer

POLL_INTERVAL: Final = 0.05  # seconds between polls for callbacks while an operation runs

# Waiting does not help against these. It may help against an unreachable broker, if another one was reached.
_FATAL: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_CONNECTION_ERRORS: Final = (*_FATAL, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT)
_UNANSWERED: Final = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)

_silent: Final = logging.Logger("librdkafka")  # has no parent: librdkafka's connection logs reach no handler
_silent.addHandler(logging.NullHandler())


class Link:
    """A confluent_kafka AdminClient that a broker has answered, with waits that are bounded in time. The constructor
    raises CannotConnect if no broker answers, BadConnection for unusable settings."""

    def __init__(self, configuration: Mapping[str, Any], *, timeout: float, waits: Waits | None = None) -> None:
        self.timeout = timeout
        self._waits = waits or Waits()
        self.configuration = {**configuration, "logger": _silent}
        self._bootstrap = str(configuration.get("bootstrap.servers", ""))
        self._last_error: KafkaError | None = None
        self._are_all_down = False
        self._is_connected = False
        self.admin = self._new_client()
        self.description = self.wait(self.admin.describe_cluster(request_timeout=timeout))
        self._is_connected = True

    def wait(self, future: "Future[Any]") -> Any:
        """Waits for one operation of the AdminClient and returns its result. Raises CannotConnect or Refused."""
        self.wait_for([future])
        return self._result(future.result)

    def call(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        """Calls one of the AdminClient's older, blocking operations and returns its result. Raises the errors of
        `wait`."""
        return self._result(lambda: operation(*arguments, timeout=self.timeout))

    def wait_for(self, futures: "list[Future[Any]]") -> None:
        """Waits until all operations have finished or failed. Raises CannotConnect as soon as it is clear that they
        will not."""
        deadline = time.monotonic() + self.timeout + 5.0  # librdkafka has its own timeout; this is the last resort
        with self._waits.on(f"{self._bootstrap}, asked by librdkafka"):
            while wait(futures, timeout=POLL_INTERVAL).not_done:
                self.admin.poll(0)
                if self._cannot_connect():
                    raise self._connect_error()
                if time.monotonic() > deadline:
                    raise NoAnswer(f"{self._bootstrap}: librdkafka has not answered within {self.timeout:g} s")
        self.admin.poll(0)

    def refused(self, error: KafkaException) -> Refused:
        """Returns the error for a request that a broker rejected as a whole, without secrets."""
        text = without_secrets(clean_message(error.args[0].str()), self.configuration)
        return Refused(f"{self._bootstrap}: {text}")

    def close(self) -> None:
        """Drops the AdminClient: librdkafka ends its threads when nothing refers to it any more."""
        del self.admin

    def _result(self, get: Callable[[], Any]) -> Any:
        try:
            return get()
        except KafkaException as error:
            self.admin.poll(0)
            if error.args[0].code() in _UNANSWERED:
                raise self._connect_error() from None
            raise self.refused(error) from None

    def _new_client(self) -> AdminClient:
        configuration: dict[str, Any] = {**self.configuration, "error_cb": self._on_error}
        try:
            return AdminClient(configuration)
        except KafkaException as error:
            raise bad_settings(error, self.configuration) from None

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._are_all_down = True
        elif error.code() in _CONNECTION_ERRORS and not self._has_fatal_error():
            self._last_error = error

    def _has_fatal_error(self) -> bool:
        return self._last_error is not None and self._last_error.code() in _FATAL

    def _cannot_connect(self) -> bool:
        return self._has_fatal_error() or (self._are_all_down and not self._is_connected)

    def _connect_error(self) -> ConnectionError:
        if self._last_error is None and self._are_all_down:
            return Disconnected(f"{self._bootstrap}: every connection is closed at once; check security.protocol")
        return cannot_connect(self._last_error, self._bootstrap, self.timeout)
