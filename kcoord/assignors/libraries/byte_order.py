"""The order of names in libraries that are not written in Java: by the bytes of UTF-8, which is by code points."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kcoord.assignors.plan import Subscriber, Topics, subscribed_counts, subscriptions_of

Item = TypeVar("Item")


def byte_order(text: str) -> bytes:
    """Returns a key that sorts texts by their bytes. Java sorts them by UTF-16 code units, and so in another order
    where some are beyond the Basic Multilingual Plane."""
    return text.encode("utf-8", "surrogatepass")


def known_counts(subscribers: Iterable[Subscriber], topics: Topics) -> dict[str, int]:
    """Returns the number of partitions of each subscribed topic that has any, in the order in which members name
    them."""
    return subscribed_counts(subscriptions_of(subscribers), topics)


def merge_sort(items: Sequence[Item], is_before_or_equal: Callable[[Item, Item], bool]) -> list[Item]:
    """Returns the items as glibc's qsort() leaves them: it sorts the first half, the second half, and merges them.

    That matters where a comparison is no order, so that the result depends on which items are compared.
    """
    if len(items) < 2:
        return list(items)
    half = len(items) // 2
    left = merge_sort(items[:half], is_before_or_equal)
    right = merge_sort(items[half:], is_before_or_equal)
    merged: list[Item] = []
    first = second = 0
    while first < len(left) and second < len(right):
        if is_before_or_equal(left[first], right[second]):
            merged.append(left[first])
            first += 1
        else:
            merged.append(right[second])
            second += 1
    return merged + left[first:] + right[second:]
