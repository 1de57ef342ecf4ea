"""Recognizes whole answers that need no rewriting, which is the common case, quickly. Pure.

Produce and Fetch answers may carry broker endpoints in a tagged field at their very end (KIP-951). They rarely do: only
if a partition has moved, and then that partition has tagged fields, too. So these functions step through an answer
under the assumption that it has no tagged field, error message or aborted transaction. If they arrive exactly at its
end, the assumption holds. False means only that the answer has to be parsed.

Answers begin with their length here, as they come from a socket. For one that is too short an index is out of range.
"""

from typing import Final

from kcoord.protocol.varint import BadVarint, read_uvarint

FIRST_BY_ID: Final = 13
"""The first version of Produce that knows topics by their ids."""


def fetch_needs_no_rewrite(answer: bytes) -> bool:
    """Returns whether a Fetch response of version 16 to 18 is certain to name no brokers; its bytes can then be
    forwarded unchanged.
    """
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


def produce_by_name_needs_no_rewrite(answer: bytes) -> bool:
    """Returns whether a Produce response of version 10 to 12, with topic names, is certain to name no brokers; its
    bytes can then be forwarded unchanged.
    """
    try:
        topics, position = read_uvarint(answer, 9)
        for _ in range(topics - 1):
            size, position = read_uvarint(answer, position)
            position = _skip_produced_topic(answer, position + size - 1)
            if not position:
                return False
        return _ends_without_tags(answer, position)
    except (IndexError, BadVarint):
        return False


def produce_by_id_needs_no_rewrite(answer: bytes) -> bool:
    """Returns whether a Produce response of version 13, with topic ids, is certain to name no brokers; its bytes can
    then be forwarded unchanged.
    """
    try:
        topics, position = read_uvarint(answer, 9)
        for _ in range(topics - 1):
            position = _skip_produced_topic(answer, position + 16)
            if not position:
                return False
        return _ends_without_tags(answer, position)
    except (IndexError, BadVarint):
        return False


def _skip_produced_topic(answer: bytes, position: int) -> int:
    """Returns the end of a topic whose partitions begin at `position`; 0 if it has errors or tagged fields."""
    partitions, position = read_uvarint(answer, position)
    for _ in range(partitions - 1):
        # Errors of records, an error message, tagged fields: behind an index, an error and three offsets.
        if answer[position + 30] > 1 or answer[position + 31] or answer[position + 32]:
            return 0
        position += 33
    return 0 if answer[position] else position + 1


def _ends_without_tags(answer: bytes, position: int) -> bool:
    """Whether only the throttle time and an empty tag count follow, and the header has no tagged fields."""
    return not answer[8] and position + 5 == len(answer) and not answer[position + 4]
