"""What all writers have in common: connections, and a thread that works until the server is gone.

A writer changes only what belongs to it, and notes in the ledger what it requests before it sends it, and what was
acknowledged. A `patient` writer continues when it is refused or hung up on, as clients do whose server has a failing
disk; for any other that is a fault.
"""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.durability.support.ledger import Ledger

TOPIC_RESOURCE = 2

PATIENCE = 60.0
_PAUSE = 0.02

Read = Callable[[Any], None]


class Refusal(Exception):
    """An answer that is an error. The requested change may have happened or not."""


class Surprise(AssertionError):
    """An impossible answer."""


class Writer:
    connections = 1

    def __init__(self, name: str, ledger: Ledger, seed: int, *, is_patient: bool = False) -> None:
        self.name = name
        self.acknowledged = 0
        self.refused = 0
        self.fault: BaseException | None = None
        self.random = Random(f"{seed} {name}")
        self.ledger = ledger
        self.clients: list[Client] = []
        self.is_patient = is_patient
        self._is_server_doomed = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._count = 0

    # Called by the code that starts and stops writers.

    def begin(self, address: tuple[str, int]) -> None:
        self.acknowledged = 0
        self._is_server_doomed = False
        self._end.clear()
        self._thread = threading.Thread(target=self._run, args=(address,), name=self.name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def expect_kill(self) -> None:
        """From now on, it is no fault if the server is gone."""
        self._is_server_doomed = True

    def end(self) -> None:
        """Ends the thread after its current step."""
        self._end.set()

    def wait(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE * 2)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    # Overridden by the kinds of writers.

    def resume(self) -> None:
        """Called when the server was restarted and the ledger resolved, and when the writer begins."""

    def recover(self) -> None:
        """Called when the writer was refused or hung up on, and has new connections."""

    def step(self) -> None:
        raise NotImplementedError

    def fresh(self) -> int:
        """Returns a number that this writer has not used before."""
        self._count += 1
        return self._count

    def ask(self, api_key: int, version: int, **values: Any) -> Any:
        return self.clients[0].ask(api_key, version, **values)

    def ask_all(self, requests: list[tuple[int, int, dict[str, Any], Read]]) -> None:
        """Sends all requests, then reads all answers, also behind a refused one: no request stays pending."""
        client = self.clients[0]
        for api_key, version, values, _ in requests:
            client.send(api_key, version, **values)
        refusal = None
        for api_key, version, _, read in requests:
            try:
                read(client.receive(api_key, version))
            except Refusal as error:
                refusal = refusal or error
        if refusal:
            raise refusal

    def check(self, error_code: ErrorCode, what: str) -> None:
        if error_code is not ErrorCode.none:
            raise Refusal(f"{what}: {error_code.name}")

    # The thread

    def _run(self, address: tuple[str, int]) -> None:
        try:
            self._connect(address)
            self.resume()
            while not self._end.is_set():
                try:
                    self.step()
                except (Refusal, ConnectionError) as error:
                    if not self.is_patient or self._is_gone(error):
                        raise
                    self.refused += 1
                    self._recover(address)
        except BaseException as error:
            if not self._is_gone(error):
                self.fault = error
        finally:
            self._disconnect()

    def _is_gone(self, error: BaseException) -> bool:
        return self._is_server_doomed and isinstance(error, ConnectionError)

    def _recover(self, address: tuple[str, int]) -> None:
        until = time.monotonic() + PATIENCE
        while not self._end.is_set():
            time.sleep(_PAUSE)
            try:
                self._disconnect()
                self._connect(address)
                self.recover()
            except (Refusal, ConnectionError) as error:
                if self._is_gone(error) or time.monotonic() > until:
                    raise
            else:
                return

    def _connect(self, address: tuple[str, int]) -> None:
        """Opens the connections one by one, so that those before one that fails are known, and closed later."""
        for _ in range(self.connections):
            self.clients.append(Client(*address, client_id=self.name, timeout=PATIENCE))

    def _disconnect(self) -> None:
        for client in self.clients:
            client.close()
        self.clients = []
