"""Kafka's checkpoint files: small text files of a version, a count, and that many rows.

| file                          | folder             | each row                  |
|-------------------------------|--------------------|---------------------------|
| `log-start-offset-checkpoint` | the data folder    | topic, partition, offset  |
| `leader-epoch-checkpoint`     | the log's folder   | epoch, its first offset   |
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from kcoord.exceptions import CorruptData

START_OFFSETS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
_VERSION = "0"


class BadCheckpoint(CorruptData, ValueError):
    """Raised when one of Kafka's checkpoint files is malformed."""


def read_start_offsets(folder: Path) -> dict[str, int]:
    """Reads `log-start-offset-checkpoint` in a data folder: the start offsets, by `<topic>-<partition>`, of logs that
    begin within a segment, as DeleteRecords leaves them. Raises BadCheckpoint, OSError."""
    starts = {}
    for line in _read(folder / START_OFFSETS):
        match line:
            case [topic, partition, offset] if partition.isdecimal() and offset.isdecimal():
                starts[f"{topic}-{partition}"] = int(offset)
            case _:
                raise BadCheckpoint(f"{START_OFFSETS}: {' '.join(line)!r} is not a topic, a partition and an offset")
    return starts


def start_offsets_text(starts: Mapping[str, int]) -> bytes:
    """Returns the contents of `log-start-offset-checkpoint` for these start offsets by `<topic>-<partition>`."""
    split = [(*name.rsplit("-", 1), offset) for name, offset in starts.items()]
    return _text(split)


def read_leader_epochs(folder: Path) -> list[tuple[int, int]]:
    """Reads `leader-epoch-checkpoint` in a log's folder: leader epochs and their first offsets, the oldest first.
    Raises BadCheckpoint, OSError."""
    epochs = []
    for line in _read(folder / LEADER_EPOCHS):
        match line:
            case [epoch, offset] if epoch.isdecimal() and offset.isdecimal():
                epochs.append((int(epoch), int(offset)))
            case _:
                raise BadCheckpoint(f"{LEADER_EPOCHS}: {' '.join(line)!r} is not an epoch and an offset")
    return sorted(epochs)


def _read(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise BadCheckpoint(f"{path.name} is not a text") from error
    if not lines:  # Kafka creates some of them empty, and fills them later.
        return []
    if lines[0] != _VERSION or len(lines) < 2 or lines[1] != str(len(lines) - 2):
        raise BadCheckpoint(f"{path.name} does not begin with version {_VERSION} and the number of its lines")
    return [line.split() for line in lines[2:]]


def _text(lines: Iterable[tuple[object, ...]]) -> bytes:
    shown = [" ".join(map(str, line)) for line in lines]
    return "\n".join([_VERSION, str(len(shown)), *shown, ""]).encode()
