"""Whether an answer that has come whole is one that has nothing to rewrite: the usual case, told quickly. Pure.

Produce and Fetch answers may have endpoints of brokers at their very end, a tagged field (KIP-951). They hardly ever
do: only where a partition has moved, and then the partition has tagged fields, too. So an answer is walked as it is
laid out without any tagged field, error message or aborted transaction; whoever comes out exactly at its end has shown
that it has none. Of any other answer nothing is said, and it is looked at closely elsewhere.

An answer begins with its length here, as it comes from a socket. Where it ends too early, an index is out of range.
"""

from typing import Final

from kcoord.protocol.varint import BadVarint, read_uvarint

FIRST_BY_ID: Final = 13
"""The first version of Produce that knows topics by their ids."""


def is_plain_fetch(answer: bytes) -> bool:
    """Of versions 16 to 18."""
    try:
        if answer[8]:
            return False
        topics, position = read_uvarint(answer, 19)  # behind the throttle time, an error and the session
        for _ in range(topics - 1):
            partitions, position = read_uvarint(answer, position + 16)
            for _ in range(partitions - 1):
                if answer[position + 30] > 1:  # aborted transactions
                    return False
                size = answer[position + 35]  # of the records
                position += 36
                if size > 0x7F:
                    size, position = read_uvarint(answer, position - 1)
                if size:
                    position += size - 1
                if answer[position]:
                    return False
                position += 1
            if answer[position]:
                return False
            position += 1
        return not answer[position] and position + 1 == len(answer)
    except (IndexError, BadVarint):
        return False


def is_plain_produce_by_name(answer: bytes) -> bool:
    """Of versions 10 to 12: topics have names."""
    try:
        topics, position = read_uvarint(answer, 9)
        for _ in range(topics - 1):
            size, position = read_uvarint(answer, position)
            position = _behind_produced(answer, position + size - 1)
            if not position:
                return False
        return _ends_plainly(answer, position)
    except (IndexError, BadVarint):
        return False


def is_plain_produce_by_id(answer: bytes) -> bool:
    """Of version 13: topics have ids."""
    try:
        topics, position = read_uvarint(answer, 9)
        for _ in range(topics - 1):
            position = _behind_produced(answer, position + 16)
            if not position:
                return False
        return _ends_plainly(answer, position)
    except (IndexError, BadVarint):
        return False


def _behind_produced(answer: bytes, position: int) -> int:
    """Where a topic ends whose partitions begin there; 0 if there is more to it."""
    partitions, position = read_uvarint(answer, position)
    for _ in range(partitions - 1):
        # Errors of records, an error message, tagged fields: behind an index, an error and three offsets.
        if answer[position + 30] > 1 or answer[position + 31] or answer[position + 32]:
            return 0
        position += 33
    return 0 if answer[position] else position + 1


def _ends_plainly(answer: bytes, position: int) -> bool:
    """Nothing but the throttle time comes, and before it all there are no tags of the header."""
    return not answer[8] and position + 5 == len(answer) and not answer[position + 4]
