"""How Java hashes texts and ids, and the order in which its HashMap and HashSet iterate.

Kafka's group coordinator picks a group's partition of `__consumer_offsets` by such a hash, and its assignors give
partitions to members in the order of a HashMap. Both are repeatable, so both can be computed here.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar
from uuid import UUID

Key = TypeVar("Key", bound=Hashable)

_UINT32: Final = 0xFFFFFFFF
_CACHED_HASHES: Final = 16384
"""Members and topics are few, and hashed again and again. Java's strings remember their hashes."""
_DEFAULT_CAPACITY: Final = 16
_TREEIFY_THRESHOLD: Final = 8
_MIN_TREEIFY_CAPACITY: Final = 64
_UNTREEIFY_THRESHOLD: Final = 6


@lru_cache(maxsize=_CACHED_HASHES)
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


def uuid_order(uuid: UUID) -> tuple[int, int]:
    """Returns a key that sorts ids as Kafka's Uuid.compareTo() does: by their halves, as signed numbers."""
    return _signed(uuid.int >> 64, 64), _signed(uuid.int & 0xFFFF_FFFF_FFFF_FFFF, 64)


def hash_map_order(
    keys: Iterable[Key],
    hash_code: Callable[[Key], int],
    *,
    capacity: int = _DEFAULT_CAPACITY,
    compared_by: Callable[[Key], Any] | None = None,
) -> list[Key]:
    """Returns the keys in the order in which a java.util.HashMap iterates over them, if they were put into it in the
    given order: by the bucket of their hash, and within a bucket in the order of insertion. A key that is put again
    stays where it is.

    `capacity` is the map's initial number of buckets, a power of two. A bucket that gets more than eight keys makes the
    map grow earlier, and becomes a tree in a large map; in it, keys with equal hashes are sorted by `compared_by`, as
    their compareTo() does. Where they cannot be compared, Java's order is that of memory addresses.
    """
    unique = list(dict.fromkeys(keys))
    hashes = [_spread(hash_code(key)) for key in unique]
    if _is_crowded(hashes, capacity):
        ranks = [compared_by(key) for key in unique] if compared_by else [0] * len(unique)
        return _crowded_order(list(map(_Node, unique, hashes, ranks)), capacity)
    mask = _grown(capacity, len(unique)) - 1
    order = sorted(range(len(unique)), key=[hashed & mask for hashed in hashes].__getitem__)
    return [unique[index] for index in order]


def hash_set_order(
    keys: Sequence[Key], hash_code: Callable[[Key], int], *, compared_by: Callable[[Key], Any] | None = None
) -> list[Key]:
    """Returns the keys in the order in which `new java.util.HashSet(keys)` iterates over them in Java 17: such a set
    begins with as many buckets as the collection needs."""
    capacity = _power_of_two(max(int(len(keys) / 0.75) + 1, _DEFAULT_CAPACITY))
    return hash_map_order(keys, hash_code, capacity=capacity, compared_by=compared_by)


def string_map_order(keys: Iterable[str] | Mapping[str, object]) -> list[str]:
    """Returns texts in the order in which a HashMap iterates over them."""
    return hash_map_order(keys, string_hash, compared_by=string_order)


class HashedSet:
    """A set of numbers that finds its first element as the iterator of a java.util.HashSet does, and is changed over
    time: its buckets grow with it, and never shrink.

    A set of more than 48 numbers of which more than eight are in one bucket has a tree in Java, and then another one of
    these eight may be its first element.
    """

    __slots__ = ("_buckets", "_hashes")

    def __init__(self) -> None:
        self._hashes: dict[int, int] = {}
        self._buckets = _DEFAULT_CAPACITY

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def add(self, element: int, hash_code: int) -> None:
        """Adds an element with its hash."""
        hashed = self._hashes.setdefault(element, _spread(hash_code))
        if self._buckets < _MIN_TREEIFY_CAPACITY and self._is_full(hashed & (self._buckets - 1)):
            self._buckets *= 2
        self._buckets = _grown(self._buckets, len(self._hashes))

    def remove(self, element: int) -> None:
        """Removes an element that is in the set."""
        del self._hashes[element]

    def first(self) -> int:
        """Returns the element that an iterator returns first. The set must not be empty."""
        mask = self._buckets - 1
        return min(self._hashes, key=lambda element: self._hashes[element] & mask)

    def _is_full(self, bucket: int) -> bool:
        if len(self._hashes) <= _TREEIFY_THRESHOLD:
            return False
        mask = self._buckets - 1
        return sum(hashed & mask == bucket for hashed in self._hashes.values()) > _TREEIFY_THRESHOLD


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


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _is_crowded(hashes: Sequence[int], capacity: int) -> bool:
    """Whether a bucket ever gets more than eight keys while the map grows."""
    if len(hashes) <= _TREEIFY_THRESHOLD:
        return False
    while True:
        mask, limit = capacity - 1, capacity * 3 // 4 + 1
        if max(Counter([hashed & mask for hashed in hashes[:limit]]).values()) > _TREEIFY_THRESHOLD:
            return True
        if limit > len(hashes):
            return False
        capacity *= 2


def _crowded_order(nodes: "Sequence[_Node]", capacity: int) -> list[Any]:
    """Returns the keys in the order of a map in which buckets become crowded, by doing what HashMap does."""
    bins = [_Bin() for _ in range(capacity)]
    for size, node in enumerate(nodes, start=1):
        into = bins[node.hashed & (len(bins) - 1)]
        into.add(node)
        if into.root is None and len(into.nodes) > _TREEIFY_THRESHOLD:
            if len(bins) < _MIN_TREEIFY_CAPACITY:
                bins = _split(bins)
            else:
                into.make_tree()
        if size > len(bins) * 3 // 4:
            bins = _split(bins)
    return [node.key for each in bins for node in each.nodes]


def _split(bins: "Sequence[_Bin]") -> "list[_Bin]":
    """Returns the buckets of a map of twice as many: those of the lower half, then those of the upper one."""
    halves = [each.split(len(bins)) for each in bins]
    return [lower for lower, _ in halves] + [upper for _, upper in halves]


class _Node:
    """A key in a bucket, which may be a node of a red-black tree. `rank` is how Java compares keys in a tree: by their
    hashes as signed numbers first."""

    __slots__ = ("hashed", "is_red", "key", "left", "parent", "rank", "right")

    def __init__(self, key: Any, hashed: int, compared_by: Any) -> None:
        self.key = key
        self.hashed = hashed
        self.rank = (_signed(hashed, 32), compared_by)
        self.unlink()

    def unlink(self) -> None:
        """Takes the node out of its tree."""
        self.parent: _Node | None = None
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.is_red = True


class _Bin:
    """A bucket: its nodes in the order in which the map iterates over them, and the root of their tree if they have
    one."""

    __slots__ = ("nodes", "root")

    def __init__(self, nodes: "Iterable[_Node]" = ()) -> None:
        self.nodes = list(nodes)
        self.root: _Node | None = None

    def add(self, node: _Node) -> None:
        """Adds a node: at the end, or in a tree behind the node below which it comes."""
        if self.root is None:
            self.nodes.append(node)
            return
        parent = self._insert(node, self.root)
        self.nodes.insert(self.nodes.index(parent) + 1, node)
        self._move_root_to_front()

    def make_tree(self) -> None:
        """Makes a tree of the nodes."""
        self.root = None
        for node in self.nodes:
            node.unlink()
            if self.root is None:
                node.is_red = False
                self.root = node
            else:
                self._insert(node, self.root)
        self._move_root_to_front()

    def split(self, bit: int) -> "tuple[_Bin, _Bin]":
        """Parts the nodes by a bit of their hashes. A small part of a tree is none any more."""
        parts = [_Bin(node for node in self.nodes if bool(node.hashed & bit) is is_upper) for is_upper in (False, True)]
        if self.root is not None:
            for part in parts:
                if len(part.nodes) == len(self.nodes):
                    part.root = self.root
                elif len(part.nodes) > _UNTREEIFY_THRESHOLD:
                    part.make_tree()
        return parts[0], parts[1]

    def _move_root_to_front(self) -> None:
        assert self.root is not None
        self.nodes.remove(self.root)
        self.nodes.insert(0, self.root)

    def _insert(self, node: _Node, root: _Node) -> _Node:
        """Inserts a node into the tree, and returns the one below which it came."""
        below: _Node | None = root
        parent = root
        while below is not None:
            parent = below
            below = parent.left if node.rank <= parent.rank else parent.right
        node.parent = parent
        if node.rank <= parent.rank:
            parent.left = node
        else:
            parent.right = node
        self._rebalance(node)
        return parent

    def _rebalance(self, node: _Node) -> None:
        """Restores the balance above a node that has been inserted, as in any red-black tree."""
        while (parent := node.parent) is not None and parent.is_red:
            grandparent = parent.parent
            assert grandparent is not None, "a root is black"
            is_left = parent is grandparent.left
            uncle = grandparent.right if is_left else grandparent.left
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                grandparent.is_red = True
                node = grandparent
                continue
            if node is (parent.right if is_left else parent.left):
                self._rotate(parent, to_left=is_left)
                node, parent = parent, node
            parent.is_red = False
            grandparent.is_red = True
            self._rotate(grandparent, to_left=not is_left)
        assert self.root is not None
        self.root.is_red = False

    def _rotate(self, node: _Node, *, to_left: bool) -> None:
        child = node.right if to_left else node.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        child.parent, node.parent = node.parent, child
        if child.parent is None:
            self.root = child
        elif child.parent.left is node:
            child.parent.left = child
        else:
            child.parent.right = child
