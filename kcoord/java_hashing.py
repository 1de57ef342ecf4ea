"""How Java hashes texts and ids, and the order in which its HashMap and HashSet iterate.

Kafka's group coordinator picks a group's partition of `__consumer_offsets` by such a hash, and its assignors give
partitions to members in the order of a HashMap. Both are repeatable, so both can be computed here.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

Key = TypeVar("Key", bound=Hashable)

_UINT32: Final = 0xFFFFFFFF
_DEFAULT_CAPACITY: Final = 16


def string_hash(text: str) -> int:
    """Returns String.hashCode() of the text, as an unsigned number."""
    hashed = 0
    for unit in text.encode() if text.isascii() else memoryview(text.encode("utf-16", "surrogatepass")[2:]).cast("H"):
        hashed = (31 * hashed + unit) & _UINT32
    return hashed


def uuid_hash(uuid: UUID) -> int:
    """Returns hashCode() of Kafka's Uuid, as an unsigned number."""
    halves = (uuid.int >> 64) ^ (uuid.int & 0xFFFF_FFFF_FFFF_FFFF)
    return (halves >> 32) ^ (halves & _UINT32)


def string_order(text: str) -> bytes:
    """Returns a key that sorts texts as String.compareTo() does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_map_order(
    keys: Iterable[Key], hash_code: Callable[[Key], int], *, capacity: int = _DEFAULT_CAPACITY
) -> list[Key]:
    """Returns the keys in the order in which a java.util.HashMap iterates over them, if they were put into it in the
    given order: by the bucket of their hash, and within a bucket in the order of insertion. A key that is put again
    stays where it is.

    `capacity` is the map's initial number of buckets, a power of two. Buckets of eight and more keys, which Java turns
    into trees, are not considered.
    """
    unique = dict.fromkeys(keys)
    mask = _grown(capacity, len(unique)) - 1

    def bucket(key: Key) -> int:
        return _spread(hash_code(key)) & mask

    return sorted(unique, key=bucket)


def hash_set_order(keys: Sequence[Key], hash_code: Callable[[Key], int]) -> list[Key]:
    """Returns the keys in the order in which `new java.util.HashSet(keys)` iterates over them in Java 17: such a set
    begins with as many buckets as the collection needs."""
    return hash_map_order(keys, hash_code, capacity=_power_of_two(max(int(len(keys) / 0.75) + 1, _DEFAULT_CAPACITY)))


def string_map_order(keys: Iterable[str] | Mapping[str, object]) -> list[str]:
    """Returns texts in the order in which a HashMap iterates over them."""
    return hash_map_order(keys, string_hash)


class HashedSet:
    """A set of numbers that finds its first element as the iterator of a java.util.HashSet does, and is changed over
    time: its buckets grow with it, and never shrink."""

    __slots__ = ("_buckets", "_hashes")

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._buckets = _DEFAULT_CAPACITY

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def add(self, element: int, hash_code: int) -> None:
        """Adds an element with its hash."""
        self._hashes[element] = _spread(hash_code)
        self._buckets = _grown(self._buckets, len(self._hashes))

    def remove(self, element: int) -> None:
        """Removes an element that is in the set."""
        del self._hashes[element]

    def first(self) -> int:
        """Returns the element that an iterator returns first. The set must not be empty."""
        mask = self._buckets - 1
        return min(self._hashes, key=lambda element: self._hashes[element] & mask)


def _spread(hash_code: int) -> int:
    """Returns the hash by which HashMap chooses a bucket: the upper half is mixed into the lower one."""
    return hash_code ^ (hash_code >> 16)


def _grown(capacity: int, size: int) -> int:
    """Returns the buckets of a map of so many keys: they double whenever more than three quarters would be taken."""
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()
