"""Handling of Ctrl-C and SIGTERM while a command changes a cluster: it stops soon and reports what was changed."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, NamedTuple, Self

from kcoord.admin.formatting import first_few, format_count

from .output.output import echo_err

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
NOTHING_CHANGED: Final = "Interrupted: nothing was changed."
_STOPPING: Final = "Interrupted: waiting for the answer to what is on its way. Interrupt again to end without it."


class Interrupted(KeyboardInterrupt):
    """The exception by which SIGINT or SIGTERM ends a command, with the exit code that shells report for this
    signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Interrupts:
    """A context manager that handles Ctrl-C and SIGTERM for a command that changes the cluster. It is the `Stop` that
    the change consults.

    Before a change begins, a signal ends the command at once. After that the first signal is only recorded, so that the
    response to the request in flight is still received; each further signal is raised.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._number: int | None = None
        self._previous_handlers: dict[int, object] = {}

    def begin(self) -> None:
        """Marks the moment right before the first change. From then on the first signal is only recorded."""
        self._has_begun = True

    def is_asked(self) -> bool:
        """Whether a signal has come, so that no further step of the change may begin."""
        return self._number is not None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a command that was stopped and has reported what it did; None if it was not stopped."""
        return None if self._number is None else 128 + self._number

    def __enter__(self) -> Self:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if before is signal.SIG_IGN:  # a shell starts background jobs like that
                continue
            with suppress(ValueError):  # only the main thread can set signal handlers
                signal.signal(number, self._on_signal)
                self._previous_handlers[number] = before
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, before in self._previous_handlers.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        if isinstance(error, KeyboardInterrupt) and not self._has_begun:
            _end_line_of_terminal()
            echo_err(NOTHING_CHANGED)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if not self._has_begun or self._number is not None:
            raise Interrupted(number)
        self._number = number
        _write_now(_STOPPING)


class StepCounts(NamedTuple):
    """The counts of an interrupted change: how many of its steps (groups, members or partitions) were done, done in
    part, refused and never begun, and the names of those about which that is uncertain."""

    done: int
    refused: int
    untried: int
    in_part: int = 0
    uncertain: Sequence[str] = ()

    @property
    def total(self) -> int:
        """The number of all steps of the change."""
        return self.done + self.in_part + self.refused + self.untried + len(self.uncertain)


def format_interruption(tally: StepCounts, *, noun: str, verb: str) -> list[str]:
    """Formats what an interrupted change has done as lines such as "Interrupted: 17 of 2,000 groups were changed, 1,983
    were not touched."."""
    parts = [f"{tally.done:,} of {format_count(tally.total, noun)} {_was_or_were(tally.done)} {verb}"]
    if tally.in_part:
        parts.append(f"{tally.in_part:,} {_was_or_were(tally.in_part)} {verb} in part")
    if tally.uncertain:
        parts.append(f"{len(tally.uncertain):,} may be {verb} or not")
    if tally.refused:
        parts.append(f"{tally.refused:,} {_was_or_were(tally.refused)} refused")
    parts.append(f"{tally.untried:,} {_was_or_were(tally.untried)} not touched")
    lines = [f"Interrupted: {', '.join(parts)}."]
    if tally.uncertain:
        names = ", ".join(first_few([repr(name) for name in tally.uncertain]))
        lines.append(f"Whether it was {verb} is not known, as no answer was waited for: {noun} {names}.")
    return lines


def _was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"


def _write_now(text: str) -> None:
    """Writes to stderr by a system call, since the signal may come while Python writes to the same stream."""
    with suppress(OSError):
        os.write(2, f"{os.linesep if os.isatty(2) else ''}{text}{os.linesep}".encode())


def _end_line_of_terminal() -> None:
    """Ends the line of the terminal on which ^C was printed."""
    if sys.stderr.isatty():
        echo_err("")
