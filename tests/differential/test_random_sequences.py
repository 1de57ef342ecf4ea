"""Random sequences of requests to both clusters.

KCOORD_TEST_SEQUENCES sets how many, KCOORD_TEST_SEED the first seed; a long run is
`KCOORD_TEST_SEQUENCES=2000 pytest tests/differential/test_random_sequences.py`.
"""

import os
from collections.abc import Callable, Sequence

import pytest

from tests.differential.sequences import Step, make_sequence, shorten
from tests.support.differential.difference import Differs
from tests.support.differential.pair import Pair

LENGTH = 60
TOPICS = 3

_first = int(os.environ.get("KCOORD_TEST_SEED", "1"))
_count = int(os.environ.get("KCOORD_TEST_SEQUENCES", "20"))


@pytest.mark.parametrize("seed", range(_first, _first + _count))
def test_a_random_sequence_is_answered_the_same(make_pair: Callable[[], Pair], seed: int) -> None:
    every_step = list(range(LENGTH + 1))
    if difference := _difference(make_pair, seed, every_step):
        short = shorten(every_step, lambda indexes: _difference(make_pair, seed, indexes) is not None)
        difference = _difference(make_pair, seed, short) or difference
        pytest.fail(f"KCOORD_TEST_SEED={seed}, shortened to {len(short)} steps:\n{difference}", pytrace=False)


def _difference(make_pair: Callable[[], Pair], seed: int, indexes: Sequence[int]) -> str | None:
    """Returns the difference that these steps of the seed's sequence show on new topics; None if there is none."""
    pair = make_pair()
    topics = [pair.topic(f"{number}") for number in range(TOPICS)]
    sequence = make_sequence(seed, topics, LENGTH)
    taken: list[Step] = []
    try:
        for index in indexes:
            taken.append(sequence[index])
            pair.ask(taken[-1].api_key, taken[-1].version, **taken[-1].values)
    except Differs as differs:
        return "\n".join([*map(str, taken), str(differs)])
    finally:
        pair.delete(*topics)
        pair.close()
    return None
