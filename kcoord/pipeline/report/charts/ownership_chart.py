"""The chart of who owned which partition when: a strip for each partition, in the colors and numbers of the members."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from kcoord.admin.formatting import format_count
from kcoord.markup import Markup, el
from kcoord.pipeline.report.charts.chart_layout import color_class, figure, head, percent, row
from kcoord.pipeline.report.charts.scales import TimeScale
from kcoord.pipeline.report.formatting import format_name, format_time, shorten_name
from kcoord.pipeline.report.model import Bounded, Member, OwnedPartition, OwnedSpan

_HEIGHT: Final = 18
_THINNEST: Final = 0.15
_ROOM_FOR_A_DIGIT: Final = 2.8  # percent of the width

Numbers = Mapping[str, int]
"""The number of each member, by its instance id or its member id."""


def numbers_of(members: Sequence[Member]) -> dict[str, int]:
    """Numbers the members of a group as they came, from 1, by instance id or member id; a static member that returns
    under another id keeps its number."""
    numbers: dict[str, int] = {}
    for member in members:
        numbers.setdefault(member.instance_id or member.member_id, len(numbers) + 1)
    return numbers


def ownership_chart(ownership: Bounded[OwnedPartition], numbers: Numbers, scale: TimeScale) -> Markup:
    """Renders the chart of who owned which partition when: a strip for each partition, in the colors and numbers of the
    members."""
    return figure(_rows(ownership.rows, numbers, scale), scale, caption=_caption(ownership))


def member_tag(number: int | None, member_id: str) -> Markup:
    """Renders a member's number on its color, by which charts and tables refer to it; None is a member that is not in
    the table of members."""
    color = color_class(number - 1) if number else "c7"
    return el("span", str(number or "?"), class_=f"tag {color}", title=shorten_name(member_id))


def _rows(partitions: Sequence[OwnedPartition], numbers: Numbers, scale: TimeScale) -> Iterator[Markup]:
    for topic, topic_partitions in groupby(partitions, key=lambda each: each.topic):
        yield head(format_name(topic))
        for partition in topic_partitions:
            drawn = (shape for span in partition.spans.rows for shape in _span_shapes(span, numbers, scale))
            shapes = [*_short_spans(partition, scale), *drawn]
            description = f"{shorten_name(topic)} {partition.partition}: {format_count(partition.spans.total, 'owner')}"
            yield row(str(partition.partition), shapes, scale, height=_HEIGHT, description=description)


def _short_spans(partition: OwnedPartition, scale: TimeScale) -> Iterator[Markup]:
    """Hatches the time between the drawn spans, if the partition has spans that are too short to be drawn."""
    if not partition.spans.omitted:
        return
    reached = 0.0
    ends = [
        (scale.percent(span.owned_from or scale.first), scale.percent(span.owned_until or scale.last))
        for span in partition.spans.rows
    ]
    for start, end in [*sorted(ends), (100.0, 100.0)]:
        if start - reached > _THINNEST:
            title = el("title", f"among {format_count(partition.spans.omitted, 'short ownership')}, or nobody's")
            middle = _HEIGHT / 2
            yield el("line", title, class_="brief", x1=percent(reached), x2=percent(start), y1=middle, y2=middle)
        reached = max(reached, end)


def _span_shapes(span: OwnedSpan, numbers: Numbers, scale: TimeScale) -> Iterator[Markup]:
    start = scale.percent(span.owned_from or scale.first)
    width = max(scale.percent(span.owned_until or scale.last) - start, _THINNEST)
    number = numbers.get(span.instance_id or span.member_id)
    color = color_class(number - 1) if number else "c7"
    title = el("title", _span_title(span, number))
    yield el("rect", title, class_=f"span {color}", x=percent(start), width=percent(width), height=_HEIGHT)
    if number and width >= _ROOM_FOR_A_DIGIT * len(str(number)):
        yield el("text", str(number), class_="on", x=percent(start + width / 2), y=13, text_anchor="middle")


def _span_title(span: OwnedSpan, number: int | None) -> str:
    member = f"instance {span.instance_id}" if span.instance_id else span.member_id
    since = format_time(span.owned_from) if span.owned_from else "the beginning"
    until = format_time(span.owned_until) if span.owned_until else "the end"
    return f"{number or '?'}: {shorten_name(member)}, from {since} to {until}"


def _caption(ownership: Bounded[OwnedPartition]) -> str:
    sentences = [
        "Each lane is a partition, with the numbers and colors of the members below; it is empty where nobody owned it."
    ]
    if ownership.omitted:
        sentences.append(f"{format_count(ownership.omitted, 'partition')} that changed hands less often: left out.")
    if spans := sum(partition.spans.omitted for partition in ownership.rows):
        sentences.append(f"{format_count(spans, 'short ownership')}: hatched, as far as anybody owned it there.")
    return " ".join(sentences)
