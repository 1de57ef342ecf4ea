"""Differences between two lists of committed offsets. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kcoord.admin.model import Committed, TopicPartition
from kcoord.admin.offsets.files.offset_lines import OffsetLine


class Kind(StrEnum):
    """How the committed offsets of a partition differ between the lists A and B."""

    ONLY_A = "only-in-a"
    ONLY_B = "only-in-b"
    OFFSET = "offset"
    DETAILS = "details"  # the same offset, another leader epoch or other metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between the lists A and B: the offsets that a group has committed for one partition. None means
    nothing committed."""

    group: str
    tp: TopicPartition
    kind: Kind
    a: Committed | None
    b: Committed | None

    @property
    def by(self) -> int | None:
        """By how many offsets B is ahead of A; None if only one of them has an offset."""
        return None if self.a is None or self.b is None else self.b.offset - self.a.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The result of comparing two lists of committed offsets: the differences, sorted by group, topic and partition,
    and the number of equal offsets."""

    differences: tuple[Difference, ...]
    same: int


def diff(a: Iterable[OffsetLine], b: Iterable[OffsetLine], *, exactly: bool = False) -> Diff:
    """Compares two lists of committed offsets by group, topic and partition. With `exactly`, leader epochs and metadata
    must be equal too."""
    of_a = {(line.group, line.tp): line.committed for line in a}
    of_b = {(line.group, line.tp): line.committed for line in b}
    keys = sorted(of_a.keys() | of_b.keys())
    compared = [_difference(*key, of_a.get(key), of_b.get(key), exactly=exactly) for key in keys]
    found = tuple(difference for difference in compared if difference is not None)
    return Diff(differences=found, same=len(keys) - len(found))


def _difference(
    group: str, tp: TopicPartition, a: Committed | None, b: Committed | None, *, exactly: bool
) -> Difference | None:
    kind = _kind(a, b, exactly=exactly)
    return None if kind is None else Difference(group=group, tp=tp, kind=kind, a=a, b=b)


def _kind(a: Committed | None, b: Committed | None, *, exactly: bool) -> Kind | None:
    if a is None:
        return Kind.ONLY_B
    if b is None:
        return Kind.ONLY_A
    if a.offset != b.offset:
        return Kind.OFFSET
    return Kind.DETAILS if exactly and a != b else None
