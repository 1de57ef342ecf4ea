"""Draws the plans of strategies as an SVG picture: a panel for each strategy, a row for each member, a box for each
partition in the color of its topic. A box with a frame is a partition that moves; a dashed one was not owned before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from kcoord.assignors.comparison import Outcome
from kcoord.assignors.plan import Partition, count_partitions, list_partitions
from kcoord.exceptions import InvalidInput
from kcoord.markup import Markup, concatenate, el

from .comparison import Comparison, headline

COLORS: Final = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948")
MAX_BOXES: Final = 20_000
_BOX, _GAP, _ROW, _HEAD, _MARGIN = 22, 3, 28, 34, 12
_CHARACTER: Final = 7.2  # the width of a character of the labels, in pixels
_BOLD: Final = 8.2
_MOST_IN_ROW: Final = 40
_FRAME: Final = "#111111"
_FRAMED: Final = "another owner than before"
_FONT: Final = "13px ui-monospace, monospace"


class TooManyPartitions(InvalidInput, ValueError):
    """Raised if a picture would have more boxes than a browser shows."""


def draw_plans(comparison: Comparison) -> str:
    """Returns the picture as an SVG document. Raises TooManyPartitions."""
    boxes = sum(count_partitions(held) for each in comparison.outcomes.values() for held in each.plan.values())
    if boxes > MAX_BOXES:
        raise TooManyPartitions(
            f"a picture shows up to {MAX_BOXES:,} partitions of all strategies, not {boxes:,}: name one by --strategy"
        )
    drawing = _Drawing.of(comparison)
    panels: list[Markup] = []
    top = _MARGIN + _HEAD
    for name, outcome in comparison.outcomes.items():
        rows = list(drawing.panel(name, outcome, top))
        panels += rows
        top += _HEAD + drawing.height(outcome) + _MARGIN
    width = 2 * _MARGIN + drawing.label_width + drawing.most_in_row * (_BOX + _GAP)
    headlines = [comparison.title, *(headline(name, each) for name, each in comparison.outcomes.items())]
    width = max(width, round(max(map(len, headlines)) * _BOLD) + 2 * _MARGIN, drawing.legend_width + 2 * _MARGIN)
    return (
        el(
            "svg",
            el("title", comparison.title),
            el("rect", width="100%", height="100%", fill="#ffffff"),
            drawing.text(comparison.title, _MARGIN, _MARGIN + 14, weight="bold"),
            *panels,
            drawing.legend(top + _MARGIN),
            xmlns="http://www.w3.org/2000/svg",
            width=width,
            height=top + 2 * _MARGIN + _ROW,
            style=f"font: {_FONT}",
            role="img",
        )
        + "\n"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """The measures of a picture, and the colors of its topics."""

    comparison: Comparison
    colors: dict[str, str]
    label_width: int
    most_in_row: int

    @classmethod
    def of(cls, comparison: Comparison) -> "_Drawing":
        outcomes = comparison.outcomes.values()
        labels = [comparison.label(member_id) for outcome in outcomes for member_id in _members(outcome)]
        most = max((count_partitions(held) for outcome in outcomes for held in outcome.plan.values()), default=0)
        topics = comparison.scenario.after.topics.counts
        return cls(
            comparison=comparison,
            colors={topic: COLORS[number % len(COLORS)] for number, topic in zip(count(), topics, strict=False)},
            label_width=round(max(map(len, labels), default=0) * _CHARACTER) + 2 * _MARGIN,
            most_in_row=min(max(most, 1), _MOST_IN_ROW),
        )

    @property
    def legend_width(self) -> int:
        """The width of the legend below the panels."""
        return round(sum(len(text) * _CHARACTER + _BOX + 2 * _MARGIN for text in (*self.colors, _FRAMED)))

    def height(self, outcome: Outcome) -> int:
        """Returns the height of a strategy's panel, without its headline."""
        return sum(self._rows_of(outcome, member_id) for member_id in _members(outcome)) * _ROW

    def panel(self, name: str, outcome: Outcome, top: int) -> Iterator[Markup]:
        """Draws a strategy's panel: its headline, and a row of boxes for each member."""
        yield self.text(headline(name, outcome), _MARGIN, top + 20, weight="bold")
        top += _HEAD
        for member_id in sorted(_members(outcome), key=self.comparison.label):
            held = list(list_partitions(outcome.plan.get(member_id, {})))
            is_gone = member_id not in outcome.plan
            label = self.comparison.label(member_id) + (" (gone)" if is_gone else "")
            yield self.text(label, _MARGIN, top + 16, fill="#888888" if is_gone else "#222222")
            for index, partition in enumerate(held):
                line, column = divmod(index, self.most_in_row)
                x = _MARGIN + self.label_width + column * (_BOX + _GAP)
                yield self._box(partition, outcome, x, top + line * _ROW)
            top += self._rows_of(outcome, member_id) * _ROW

    def legend(self, top: int) -> Markup:
        """Draws which topic has which color."""
        parts: list[Markup] = []
        x = float(_MARGIN)
        for topic, color in self.colors.items():
            parts.append(el("rect", x=round(x), y=top, width=14, height=14, fill=color, rx=2))
            parts.append(self.text(topic, round(x) + 20, top + 12))
            x += len(topic) * _CHARACTER + _BOX + 2 * _MARGIN
        if any(any(outcome.before.values()) for outcome in self.comparison.outcomes.values()):
            box = el("rect", x=round(x), y=top, width=14, height=14, rx=2, fill="none", stroke=_FRAME, stroke_width=2)
            parts += [box, self.text(_FRAMED, round(x) + 20, top + 12)]
        return concatenate(*parts)

    def text(self, text: str, x: float, y: float, *, fill: str = "#222222", weight: str | None = None) -> Markup:
        """Draws text, its baseline at this point."""
        return el("text", text, x=x, y=y, fill=fill, font_weight=weight)

    def _rows_of(self, outcome: Outcome, member_id: str) -> int:
        return max(1, -(-count_partitions(outcome.plan.get(member_id, {})) // self.most_in_row))

    def _box(self, partition: Partition, outcome: Outcome, x: int, y: int) -> Markup:
        topic, number = partition
        stroke, dashes = None, None
        if any(outcome.before.values()):
            stroke = _FRAME if partition in outcome.moved or partition in outcome.started else None
            dashes = "3 2" if partition in outcome.started else None
        box = el(
            "rect",
            x=x,
            y=y,
            width=_BOX,
            height=_BOX,
            rx=3,
            fill=self.colors.get(topic, "#bbbbbb"),
            stroke=stroke,
            stroke_width=2 if stroke else None,
            stroke_dasharray=dashes,
        )
        label = el("text", str(number), x=x + _BOX / 2, y=y + 15, fill="#ffffff", text_anchor="middle", font_size=11)
        return el("g", el("title", f"{topic}-{number}"), box, label)


def _members(outcome: Outcome) -> Sequence[str]:
    return list(dict.fromkeys([*outcome.plan, *outcome.before]))
