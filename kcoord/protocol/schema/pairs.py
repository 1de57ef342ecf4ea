"""Reads many structs of a text and numbers in one step: topics with their partitions, of which the subscriptions and
assignments of large groups have a hundred thousand."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from kcoord.protocol.schema.notation import Fields

_SIZE: Final = Struct(">h")
_NUMBER: Final = Struct(">i")


def is_pair(fields: Fields, version: int) -> bool:
    """Whether a struct has a text and an array of int32 in this version, and nothing else."""
    kinds = [(field.type, field.is_array) for field in fields if field.is_in(version) and field.tag is None]
    return len(fields) == len(kinds) and kinds == [("string", False), ("int32", True)]


def pairs_reader(
    make: Callable[[list[Any]], Any], decode: Callable[[bytes], str]
) -> Callable[[bytes, int, int], tuple[list[Any], int]]:
    """Returns a reader of at most so many pairs. It ends before the first one that is not common, whose numbers are
    missing or whose lengths are impossible: the general steps read that one, or refuse it."""

    def read_pairs(content: bytes, position: int, count: int) -> tuple[list[Any], int]:
        pairs: list[Any] = []
        limit = len(content) - _NUMBER.size
        for _ in range(count):
            if position > limit:
                break
            start = position + _SIZE.size
            middle = start + _SIZE.unpack_from(content, position)[0]
            if not start <= middle <= limit:
                break
            numbers = middle + _NUMBER.size
            amount = _NUMBER.unpack_from(content, middle)[0]
            end = numbers + amount * _NUMBER.size
            if not numbers < end <= len(content):
                break
            pairs.append(make([decode(content[start:middle]), _numbers(amount).unpack_from(content, numbers)]))
            position = end
        return pairs, position

    return read_pairs


@lru_cache(maxsize=256)
def _numbers(amount: int) -> Struct:
    return Struct(f">{amount}i")
