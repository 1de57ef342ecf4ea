"""The layout that all charts share: rows with a label and a strip of time, and the axis below them.

A strip is an SVG as wide as there is room: positions along the time are percentages, so that figures and letters keep
their size on a phone.
"""

from collections.abc import Iterable
from typing import Final

from kcoord.markup import Child, Markup, concatenate, el
from kcoord.pipeline.report.charts.scales import Tick, TimeScale
from kcoord.pipeline.report.style import COLORS

_AXIS_HEIGHT: Final = 30


def figure(rows: Iterable[Markup], scale: TimeScale, *, legend: Markup | None = None, caption: Child) -> Markup:
    """Renders a chart as an HTML figure: its rows, the axis of time below them, a legend and a caption."""
    return el(
        "figure",
        el("div", *rows, time_axis(scale), class_="rows"),
        legend,
        el("figcaption", caption),
    )


def row(label: Child, shapes: Iterable[Markup], scale: TimeScale, *, height: int, description: str) -> Markup:
    """Renders one row of a chart: a label, and next to it a strip of time with these SVG shapes. Screen readers read
    the `description`."""
    grid = (_upright(tick) for tick in scale.ticks())
    strip = el("svg", *grid, *shapes, height=height, role="img", aria_label=description)
    return concatenate(el("div", label, class_="label"), strip)


def head(text: Child) -> Markup:
    """Renders a headline across a chart, above the rows that belong together."""
    return el("div", text, class_="head")


def time_axis(scale: TimeScale) -> Markup:
    """Renders the axis of time below a chart."""
    labels = [_time_label(number, tick) for number, tick in enumerate(scale.ticks())]
    return concatenate(
        el("div", class_="label"), el("svg", *labels, height=_AXIS_HEIGHT, role="img", aria_label="the axis of time")
    )


def percent(value: float) -> str:
    """Formats a percentage for an SVG attribute, such as "12.5%"."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def color_class(number: int) -> str:
    """Returns the CSS class of the color with this number; numbers beyond the palette begin again."""
    return f"c{number % COLORS}"


def _upright(tick: Tick) -> Markup:
    at = percent(tick.percent)
    return el("line", class_="grid", x1=at, x2=at, y1=0, y2="100%")


def _time_label(number: int, tick: Tick) -> Markup:
    at = percent(tick.percent)
    anchor = "start" if tick.percent < 4 else "end" if tick.percent > 96 else "middle"
    is_odd = number % 2 == 1
    label = el("text", tick.label, x=at, y=12, text_anchor=anchor, class_="axis odd" if is_odd else "axis")
    return concatenate(label, el("text", tick.day, x=at, y=26, text_anchor=anchor, class_="axis") if tick.day else None)
