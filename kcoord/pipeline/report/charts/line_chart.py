"""Charts of values over time, as lines and as steps. A gap is where a value is unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kcoord.markup import Child, Markup, el
from kcoord.pipeline.report.charts.chart_layout import color_class, figure, percent, row
from kcoord.pipeline.report.charts.scales import NumberScale, Tick, TimeScale
from kcoord.pipeline.report.model import Point

_HEIGHT: Final = 150
_BOX: Final = 1000  # the units of a path, which cannot use percentages
_DASHES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a chart: its points, and its label in the legend."""

    label: Markup
    points: Sequence[Point]


def line_chart(
    lines: Sequence[Line], times: TimeScale, numbers: NumberScale, *, description: str, caption: Child
) -> Markup:
    """Renders a chart of values over time, as lines of different color and dash, the first one thicker; the legend is
    below them."""
    paths = [
        el("path", class_=f"line {_style(number)}", d=_line_path(line.points, times, numbers))
        for number, line in enumerate(lines)
    ]
    legend = el("ul", *(_legend(number, line) for number, line in enumerate(lines)), class_="legend")
    drawn = _row(paths, times, numbers, description)
    return figure([drawn], times, legend=legend, caption=caption)


def step_chart(
    points: Sequence[Point],
    piece: timedelta,
    times: TimeScale,
    numbers: NumberScale,
    *,
    description: str,
    caption: Child,
) -> Markup:
    """Renders a chart of values over time with a column for each piece of the time. A piece without a point counts as
    zero."""
    path = el("path", class_="area c0", d=_columns_path(points, piece, times, numbers))
    return figure([_row([path], times, numbers, description)], times, caption=caption)


def _row(paths: Iterable[Markup], times: TimeScale, numbers: NumberScale, description: str) -> Markup:
    levels = [el("line", class_="grid", x1=0, x2="100%", y1=y, y2=y) for y in map(_level, numbers.ticks())]
    box = f"0 0 {_BOX} {_BOX}"
    inner = el("svg", *paths, viewBox=box, preserveAspectRatio="none", width="100%", height=_HEIGHT)
    return row(_number_axis(numbers), [*levels, inner], times, height=_HEIGHT, description=description)


def _number_axis(numbers: NumberScale) -> Markup:
    labels = [
        el("text", tick.label, class_="axis", x="100%", y=_level(tick), dy=4, text_anchor="end")
        for tick in numbers.ticks()
    ]
    return el("svg", *labels, height=_HEIGHT, role="img", aria_label="the axis of values")


def _level(tick: Tick) -> str:
    return percent(tick.percent)


def _style(number: int) -> str:
    return f"{color_class(number)} d{number % _DASHES}"


def _legend(number: int, line: Line) -> Markup:
    swatch = el(
        "svg", el("line", class_=f"line {_style(number)}", x1=2, x2="98%", y1=6, y2=6), height=12, aria_hidden="true"
    )
    return el("li", swatch, el("span", line.label))


def _line_path(points: Iterable[Point], times: TimeScale, numbers: NumberScale) -> str:
    """Returns the path of a line. A point between two gaps becomes a dot: a line of no length is drawn round."""
    path: list[str] = []
    is_open = False
    for point in points:
        if point.value is None:
            is_open = False
            continue
        x, y = _units(times.percent(point.at)), _units(numbers.percent(point.value))
        path.append(f"L{x} {y}" if is_open else f"M{x} {y}h0")
        is_open = True
    return "".join(path)


def _columns_path(points: Iterable[Point], piece: timedelta, times: TimeScale, numbers: NumberScale) -> str:
    return "".join(_column(point, piece, times, numbers) for point in points)


def _column(point: Point, piece: timedelta, times: TimeScale, numbers: NumberScale) -> str:
    left, right = _units(times.percent(point.at)), _units(times.percent(point.at + piece))
    return f"M{left} {_BOX}V{_units(numbers.percent(point.value or 0))}H{right}V{_BOX}z"


def _units(value: float) -> str:
    return f"{value * _BOX / 100:.1f}".removesuffix(".0")
