"""`kill -9` while eight writers are busy: nothing acknowledged is missing or older, however often that happens.

KCOORD_TEST_KILLS is the number of kills; after a few of them a new folder is begun. KCOORD_TEST_SEED repeats the
choices of a run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.durability.support.rounds import LEAST, Life
from tests.durability.support.seeds import KILLS, SEED, format_failure
from tests.durability.support.serving import Kind

_SMALL: Final = {"log.segment.bytes": "20000", "offsets.topic.num.partitions": "1"}
_COMPACTING: Final = {
    "log.cleaner.backoff.ms": "30",
    "kcoord.compaction.bytes": "2000",
    "log.cleaner.delete.retention.ms": "0",
    "offsets.topic.num.partitions": "5",
}
_KINDS: Final = {
    "as it is": Kind(),
    "small segments": Kind(settings=_SMALL, offsets_segment_bytes=1 << 20),
    "always compacting": Kind(settings=_COMPACTING),
    "fsync": Kind(settings=_SMALL, is_synced=True),
}
_SHARES: Final = {"as it is": 6, "small segments": 6, "always compacting": 5, "fsync": 3}
_AT_ONCE: Final = sum(_SHARES.values())


def _lives() -> Iterator[tuple[str, int, int]]:
    """Yields the kind of each life, its seed, and its kills."""
    for number, before in enumerate(range(0, KILLS, _AT_ONCE)):
        if KILLS - before >= _AT_ONCE:
            yield from ((kind, SEED + number, kills) for kind, kills in _SHARES.items())
        else:
            yield next(iter(_SHARES)), SEED + number, KILLS - before


@pytest.mark.parametrize(("kind", "seed", "kills"), list(_lives()))
def test_nothing_acknowledged_is_lost_however_often_the_server_is_killed(
    tmp_path: Path, kind: str, seed: int, kills: int
) -> None:
    life = Life(tmp_path / "data", seed, _KINDS[kind])
    wrong = life.run(kills)
    assert not wrong, format_failure(wrong, "tests/durability/test_kill.py")
    assert life.rounds == kills
    assert life.acknowledged >= kills * LEAST
    if kind == "small segments":
        assert len(_segments(life.folder, "produced-0")) > kills, "segments were to be small"
        assert len(_segments(life.folder, "__consumer_offsets-0")) > 1, "segments were to be small"
    if kind == "always compacting":
        assert life.compactions > kills, "it was to compact all the time"


def _segments(folder: Path, log: str) -> list[Path]:
    return list((folder / log).glob("*.log"))
