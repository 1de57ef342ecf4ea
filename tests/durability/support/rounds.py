"""Rounds: a server is started on the folder and audited, all writers keep it busy, it is killed."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tests.durability.support.auditor import audit
from tests.durability.support.group_writers import Members, Nobody
from tests.durability.support.ledger import Ledger
from tests.durability.support.record_writers import NumberedProducer, PlainProducer
from tests.durability.support.serving import Kind, Served
from tests.durability.support.topic_writers import TopicMaker
from tests.durability.support.writers import Writer

LEAST: Final = 100
"""The fewest acknowledged operations of a round that counts."""
_MOST: Final = 1500
_LONGEST: Final = 60.0
_WASTED: Final = 3
_WELL: Final = 10
_NEVER: Final = 1 << 60


def make_writers(ledger: Ledger, seed: int, *, is_patient: bool = False) -> list[Writer]:
    """Makes the eight writers."""
    return [
        *(Nobody(f"nobody-{number}", ledger, seed, is_patient=is_patient) for number in range(2)),
        *(Members(f"members-{number}", ledger, seed, is_patient=is_patient) for number in range(2)),
        NumberedProducer("numbered-0", ledger, seed, is_patient=is_patient),
        NumberedProducer("numbered-1", ledger, seed, is_patient=is_patient),
        PlainProducer("plain", ledger, seed, is_patient=is_patient),
        TopicMaker("topics", ledger, seed, is_patient=is_patient),
    ]


class Life:
    """The life of a folder: the writers that use its servers, and their ledger."""

    def __init__(self, folder: Path, seed: int, kind: Kind | None = None, *, is_patient: bool = False) -> None:
        self.folder = folder
        self.kind = kind or Kind()
        self.ledger = Ledger()
        self.random = Random(seed)
        self.writers = make_writers(self.ledger, seed, is_patient=is_patient)
        self.acknowledged = 0
        self.rounds = 0
        self.compactions = 0

    def run(self, kills: int) -> list[str]:
        """Kills the server so often, each time when it was busy. Returns what was found wrong."""
        wasted = 0
        while self.rounds < kills:
            with self.serve() as served:
                if wrong := self.audit(served):
                    return wrong
                if self.be_busy(served):
                    self.rounds += 1
                else:
                    wasted += 1
                    assert wasted <= _WASTED, f"rounds with under {LEAST} acknowledged operations: {wasted}"
        with self.serve() as served:
            return self.audit(served)

    def serve(self) -> Served:
        return Served(self.folder, self.kind)

    def audit(self, served: Served) -> list[str]:
        with served.client() as client:
            return audit(client, self.ledger)

    def be_busy(self, served: Served) -> bool:
        """Runs the writers until the server is killed. Returns whether that was a round that counts."""
        enough = self.random.randint(LEAST, _MOST)
        self.begin(served)
        self.wait_for(enough, served)
        for writer in self.writers:
            writer.expect_kill()
        are_busy = all(writer.is_busy for writer in self.writers)
        time.sleep(self.random.random() * 0.005)
        served.kill()
        self.compactions += served.log().count("compacted partition=")
        return self.end() >= LEAST and are_busy

    def be_busy_until_it_dies(self, served: Served) -> int:
        """Runs the writers until the server ends itself. Returns how much was acknowledged."""
        self.begin(served)
        for writer in self.writers:
            writer.expect_kill()
        self.wait_for(_NEVER, served)
        assert not served.is_running, "it goes on"
        return self.end()

    def begin(self, served: Served) -> None:
        for writer in self.writers:
            writer.begin(served.address)

    def wait_for_line(self, text: str, served: Served) -> None:
        """Waits for a line of the server's log."""
        until = time.monotonic() + _LONGEST
        while text not in served.log():
            self._check_faults(served)
            assert time.monotonic() < until, f"it has not said {text!r}:\n{served.log()[-3000:]}"
            time.sleep(0.01)

    def be_well_again(self, served: Served) -> None:
        """Waits until every writer has had operations acknowledged from now on, without a restart."""
        before = [writer.acknowledged for writer in self.writers]
        until = time.monotonic() + _LONGEST

        def are_well() -> bool:
            return all(writer.acknowledged >= count + _WELL for writer, count in zip(self.writers, before, strict=True))

        while not are_well():
            self._check_faults(served)
            assert served.is_running, f"it ended:\n{served.log()[-3000:]}"
            assert time.monotonic() < until, f"{self._format_counts()}:\n{served.log()[-3000:]}"
            time.sleep(0.01)

    def wait_for(self, enough: int, served: Served) -> None:
        """Waits for so many acknowledged operations, the end of the server, or the timeout."""
        until = time.monotonic() + _LONGEST
        while self._so_far() < enough and time.monotonic() < until and served.is_running:
            self._check_faults(served)
            time.sleep(0.001)

    def end(self) -> int:
        """Waits for all writers. Returns how much was acknowledged in this round."""
        for writer in self.writers:
            writer.wait()
        faults = list(self._faults())
        assert not faults, "\n".join(faults)
        self.acknowledged += self._so_far()
        return self._so_far()

    def rest(self) -> None:
        """Ends every writer after its current step: all requests are answered, none is pending."""
        for writer in self.writers:
            writer.end()
        self.end()

    def kill(self, served: Served) -> None:
        for writer in self.writers:
            writer.expect_kill()
        served.kill()
        self.end()

    def _format_counts(self) -> str:
        return ", ".join(f"{writer.name}: {writer.acknowledged}" for writer in self.writers)

    def _check_faults(self, served: Served) -> None:
        faults = list(self._faults())
        assert not faults, "\n".join([*faults, served.log()[-3000:]])

    def _so_far(self) -> int:
        return sum(writer.acknowledged for writer in self.writers)

    def _faults(self) -> Iterator[str]:
        for writer in self.writers:
            if writer.fault is not None:
                yield f"{writer.name}: {type(writer.fault).__name__}: {writer.fault}"
