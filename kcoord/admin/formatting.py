"""Formats members, partitions and counts for sentences. Names are unescaped, as the cluster has them: whoever prints
them escapes them."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

from kcoord.admin.model import Member, TopicPartition


def format_member(member: Member) -> str:
    """Formats a member of a group by what an operator finds it by: client id, host, and the instance id or the member
    id."""
    known_as = f"instance {member.instance_id}" if member.instance_id is not None else member.member_id
    return " ".join(word for word in (member.client_id, member.host.removeprefix("/"), f"({known_as})") if word)


def format_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Formats any number of partitions as ranges: `orders 0-3,7; payments 1`."""
    by_topic = groupby(sorted(set(partitions)), key=lambda tp: tp.topic)
    return "; ".join(f"{topic} {_format_ranges([tp.partition for tp in tps])}" for topic, tps in by_topic)


def format_count(count: int, thing: str) -> str:
    """Formats a count with its noun: `1 member`, `1,200 members`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def format_shares(counts: Iterable[int]) -> str:
    """Formats how many partitions each member has, the largest number first; for many members as how many have how
    many: `3, 3, 2`, `12 × 3, 5 × 2`."""
    largest_first = sorted(counts, reverse=True)
    if len(largest_first) <= 12:
        return ", ".join(map(str, largest_first))
    return ", ".join(f"{members} × {count}" for count, members in Counter(largest_first).items())


def first_few(lines: Collection[str], *, limit: int = 8) -> tuple[str, ...]:
    """Shortens a list of lines for a message: returns all lines, or the first ones and a line with the number of the
    others."""
    if len(lines) <= limit:
        return tuple(lines)
    return (*list(lines)[: limit - 1], f"and {len(lines) - limit + 1:,} more")


def rate_text(per_second: float) -> str:
    """Formats a rate per second: `0/s`, `0.3/s`, `25/s`, `1,200/s`."""
    size = abs(per_second)
    if size < 0.05:
        return "0/s"
    return f"{per_second:,.1f}/s" if size < 9.95 else f"{per_second:,.0f}/s"


def _format_ranges(numbers: Sequence[int]) -> str:
    """Formats ascending numbers as ranges."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
