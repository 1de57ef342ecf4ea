"""Renders the report as one HTML file: an overview, and a page for each group.

CSS alone shows one page at a time (`:target`); where that is not supported, and on paper, the pages follow each other.
There is no script, and a policy in the head forbids all: names come from clients, and are shown to people who may have
more permissions than these clients.
"""

from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Final

from kcoord.markup import Markup, concatenate, el
from kcoord.pipeline.report.charts.scales import TimeScale, time_scale
from kcoord.pipeline.report.formatting import format_name, shorten_name
from kcoord.pipeline.report.group_page import group_page
from kcoord.pipeline.report.model import GroupFacts, ReportFacts
from kcoord.pipeline.report.overview import overview
from kcoord.pipeline.report.style import STYLE

_STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"


def render(facts: ReportFacts) -> str:
    """Renders the report as the text of one HTML file. It needs nothing else: no network, no script, no font."""
    scale = time_scale(facts.first_at, facts.last_at)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="generator", content="kcoord"),
        el("title", f"Groups of {shorten_name(facts.source_name)}"),
        el("style", Markup(STYLE)),
    )
    return f"<!DOCTYPE html>\n{el('html', head, el('body', *_pages(facts, scale)), lang='en')}\n"


def _pages(facts: ReportFacts, scale: TimeScale) -> list[Markup]:
    groups = facts.groups.rows
    # Anchors are numbers, since a name may contain anything.
    anchors = {each.group: f"group-{number}" for number, each in enumerate(groups, 1)}
    piece = timedelta(seconds=facts.piece_seconds)
    first = el("section", overview(facts, scale, anchors), id="overview", class_="page")
    others = [
        el("section", _links(groups, number), group_page(each, scale, piece), id=anchors[each.group], class_="page")
        for number, each in enumerate(groups)
    ]
    return [first, *others, el("footer", "Made by kcoord pipeline report.", class_="quiet")]


def _links(groups: tuple[GroupFacts, ...], number: int) -> Markup:
    before, after = number - 1, number + 1
    return el(
        "nav",
        el("a", "Overview", href="#overview"),
        _link(groups[before], before, "Before: ") if before >= 0 else None,
        _link(groups[after], after, "Next: ") if after < len(groups) else None,
        aria_label="pages",
    )


def _link(facts: GroupFacts, number: int, word: str) -> Markup:
    return el("a", concatenate(word, format_name(shorten_name(facts.group))), href=f"#group-{number + 1}")
