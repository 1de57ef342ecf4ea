"""`kcoord serve` with a disk that fails, or with a deliberate fault in kcoord: python -P faulty.py PLAN serve …

A plan names the calls of kcoord.storage.filesystem that go wrong, counted from the start of the process, and how:

| how     | the call                                                                                              |
|---------|-------------------------------------------------------------------------------------------------------|
| refuse  | does nothing, and fails                                                                               |
| tear    | does half of it, and fails                                                                            |
| scar    | does half of it, and fails; the half stays, as truncating fails too, as often as that                 |
| die     | does half of it, and there the process ends                                                           |
| drop    | does nothing, and returns as if it had: a fault in kcoord, which an auditor must notice               |
| delay   | is done with the next one on the same file: likewise a fault in kcoord                                |

`synced_copy` makes the disk a forgetful one, and `answers_first` sends responses before the journal is flushed: a fault
in kcoord.
"""

import errno
import json
import os
import runpy
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from kcoord.server.connection.event_round import EventRound
from kcoord.storage import segment_files
from kcoord.storage.filesystem import Filesystem

BEGINS: Final = "faulty: the disk fails"
IS_OVER: Final = "faulty: the disk is well"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    how: str = "refuse"
    calls: tuple[str, ...] = ("write",)
    first: int = 1 << 60
    """The number of the first call that goes wrong."""
    count: int = 1
    only: str = ""
    """Only files with this in their path."""
    error: int = errno.ENOSPC
    folder: str = ""
    synced_copy: str = ""
    answers_first: bool = False

    def text(self) -> str:
        return json.dumps(asdict(self))


class FaultyFilesystem(Filesystem):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._number = 0
        self._scars_left = plan.count
        self._paths: dict[int, str] = {}
        self._delayed: dict[int, tuple[bytes, int]] = {}

    def open(self, path: Path) -> int:
        def done(is_whole: bool) -> int:
            return super(FaultyFilesystem, self).open(path)

        opened: int = self._call("open", str(path), done) if not path.exists() else done(is_whole=True)
        self._paths[opened] = str(path)
        return opened

    def write(self, file: int, content: bytes | bytearray, position: int) -> None:
        def done(is_whole: bool) -> None:
            part = content if is_whole else content[: len(content) // 2]
            super(FaultyFilesystem, self).write(file, part, position)

        if self._plan.how == "delay" and self._plan.only in self._paths[file]:
            late, self._delayed[file] = self._delayed.get(file), (bytes(content), position)
            if late is None:
                _print(BEGINS)
            else:
                super().write(file, *late)
            return
        self._call("write", self._paths[file], done)

    def read(self, file: int, size: int, position: int) -> bytes:
        content: bytes = self._call(
            "read", self._paths[file], lambda _: super(FaultyFilesystem, self).read(file, size, position)
        )
        return content

    def truncate(self, file: int, size: int) -> None:
        if self._plan.how == "scar" and self._is_failing and self._plan.only in self._paths[file] and self._scars_left:
            self._scars_left -= 1
            raise OSError(self._plan.error, "the disk fails")
        super().truncate(file, size)

    def sync(self, file: int) -> None:
        self._call("sync", self._paths[file], lambda _: super(FaultyFilesystem, self).sync(file))

    def sync_folder(self, folder: Path) -> None:
        self._call("sync", str(folder), lambda _: super(FaultyFilesystem, self).sync_folder(folder))

    def make_folder(self, folder: Path) -> None:
        self._call("make_folder", str(folder), lambda _: super(FaultyFilesystem, self).make_folder(folder))

    def rename(self, path: Path, to: Path) -> None:
        self._call("rename", str(path), lambda _: super(FaultyFilesystem, self).rename(path, to))

    def delete(self, path: Path) -> None:
        self._call("delete", str(path), lambda _: super(FaultyFilesystem, self).delete(path))

    @property
    def _is_failing(self) -> bool:
        return self._plan.first <= self._number < self._plan.first + self._plan.count

    def _call(self, call: str, path: str, do: Callable[[bool], Any]) -> Any:
        plan = self._plan
        if call not in plan.calls or plan.only not in path:
            return do(True)
        self._number += 1
        if self._number == plan.first + plan.count:
            _print(IS_OVER)
        if not self._is_failing:
            return do(True)
        if self._number == plan.first:
            _print(BEGINS)
        if plan.how == "drop":
            return None
        if plan.how in ("tear", "scar", "die"):
            do(False)
        if plan.how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(plan.error, "the disk fails")


def _round_that_answers_first(self: EventRound) -> None:
    """Runs a round of the event loop, but flushes after the responses are sent."""
    flush, self._flush = self._flush, lambda: None
    try:
        _round(self)
    finally:
        self._flush = flush
        flush()


_round = EventRound._run


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    filesystem: Filesystem = FaultyFilesystem(plan)
    if plan.synced_copy:
        sys.path.insert(0, str(Path(__file__).parent.parent.parent.parent))
        from tests.durability.support.forgetful import ForgetfulFilesystem

        filesystem = ForgetfulFilesystem(Path(plan.folder), Path(plan.synced_copy))
    answering = _round_that_answers_first if plan.answers_first else _round
    sys.argv[0:2] = ["kcoord"]
    with patch.object(segment_files, "Filesystem", lambda: filesystem), patch.object(EventRound, "_run", answering):
        runpy.run_module("kcoord.commands")


if __name__ == "__main__":
    main()
