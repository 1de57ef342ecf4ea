"""Colors are readable, and can be distinguished."""

from itertools import combinations

import pytest

from kcoord.pipeline.report.charts.rebalance_chart import CAUSES
from kcoord.pipeline.report.style import COLORS, DARK, LIGHT, STYLE, Scheme

schemes = pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])


def channels(color: str) -> list[float]:
    """Returns the linear red, green and blue of #rrggbb."""
    values = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def contrast(one: str, other: str) -> float:
    """Returns the contrast ratio that WCAG 2 defines."""
    lights = sorted(sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), channels(each))) for each in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@schemes
def test_text_can_be_read(scheme: Scheme) -> None:
    for text in (scheme.text, scheme.quiet, scheme.link):
        assert contrast(text, scheme.ground) >= 4.5
    for color in scheme.colors:
        assert contrast(scheme.on_color, color) >= 4.5


@schemes
def test_shapes_stand_out_from_the_ground(scheme: Scheme) -> None:
    for color in scheme.colors:
        assert contrast(color, scheme.ground) >= 3


@schemes
def test_no_two_colors_are_the_same(scheme: Scheme) -> None:
    for one, other in combinations(scheme.colors, 2):
        assert sum(abs(a - b) for a, b in zip(channels(one), channels(other), strict=True)) > 0.08, (one, other)


def test_both_schemes_have_a_color_for_each_cause() -> None:
    assert len(DARK.colors) == len(LIGHT.colors) == COLORS >= len(CAUSES)


def test_paper_is_light_whatever_the_screen_is() -> None:
    assert "@media screen and (prefers-color-scheme:dark)" in STYLE
