"""The page as a whole: one file that needs nothing else, whatever names are in it."""

import re
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256

import pytest

from kcoord.pipeline.report.model import Bounded, GroupFacts, ReportFacts
from kcoord.pipeline.report.page import render
from kcoord.pipeline.report.style import STYLE
from tests.pipeline.report.sample_facts import renamed, sample_facts
from tests.support.pipeline.pages import Element, parse

HOSTILE = {
    "a script": "<script>alert(1)</script>",
    "the end of an attribute": "\" onmouseover='alert(1)' x=\"",
    "the end of the style": "</style></title></svg><img src=x onerror=alert(1)>",
    "a comment": "<!-- --!> <![CDATA[ ]]> <?php",
    "references": "&lt;script&gt; &amp &#60;b&#62; &nbsp",
    "control characters": "a\x00b\x1b[2Jc\x07\r\nd\x85\u2028e",
    "marks of direction": "pay\u202ements\u2066\u200f",
    "right to left": "קבוצה-של-תשלומים",
    "an address": "javascript:alert(1)#group-1",
    "the longest topic": "n" * 249,
    "a client id of 32,767 characters": "<" * 32_767,
    "no name": "",
    "half a character": "\ud83d",
}


@cache
def page_with(name: str) -> str:
    facts = sample_facts()
    return render(renamed(replace(facts, groups=Bounded(rows=facts.groups.rows[-2:], total=9)), name))


@cache
def parsed_with(name: str) -> Element:
    return parse(page_with(name))


@cache
def sample_page() -> Element:
    return parse(render(sample_facts()))


def shape(element: Element) -> list[tuple[str, tuple[str, ...], tuple[str | None, ...]]]:
    """Returns what a browser would act on: the elements, which attributes they have, and where they lead."""
    acted_on = tuple(element.attributes.get(name) for name in ("href", "id", "content", "http-equiv", "role"))
    this_element = (element.name, tuple(element.attributes), acted_on)
    return [this_element, *(each for inner in element.inside for each in shape(inner))]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_no_name_makes_an_element_or_an_attribute(name: str) -> None:
    plain, hostile = parsed_with("plain"), parsed_with(name)
    assert shape(hostile) == shape(plain)
    assert hostile.find("style").text == plain.find("style").text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_cannot_be_seen_is_in_the_page(name: str) -> None:
    page = page_with(name)
    assert not [char for char in page if not char.isprintable() and char != "\n"]
    assert len(page) < 1_000_000


def test_a_name_is_shown_as_it_is() -> None:
    page = parsed_with("<b>größe & 日本</b>")
    assert "<b>größe & 日本</b>" in page.find_all("h1")[1].text


def test_names_are_kept_apart_from_the_direction_of_the_text_around_them() -> None:
    page = parsed_with(HOSTILE["right to left"])
    assert HOSTILE["right to left"] in page.find_all("h1")[1].find("bdi").text


def test_the_page_needs_nothing_else() -> None:
    elements = _every(sample_page())
    names = {each.name for each in elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
    assert not re.search(r"url\(|@import|@font-face|https?:", render(sample_facts()))
    assert all((each.attributes.get("href") or "#").startswith("#") for each in elements)


def test_its_policy_forbids_all_but_its_own_style() -> None:
    page = sample_page()
    [policy] = [each for each in page.find_all("meta") if each.attributes.get("http-equiv")]
    digest = b64encode(sha256(page.find("style").text.encode()).digest()).decode()
    assert policy.attributes["content"] is not None
    assert policy.attributes["content"].startswith(f"default-src 'none'; style-src 'sha256-{digest}';")
    assert not [each for each in _every(page) if "style" in each.attributes], "which the policy would forbid"


def test_every_link_leads_to_a_page_and_every_page_has_one() -> None:
    page = sample_page()
    ids = [each.attributes["id"] for each in _every(page) if "id" in each.attributes]
    links = {each.attributes["href"] for each in page.find_all("a")}
    assert len(ids) == len(set(ids)) == 6
    assert links == {f"#{each}" for each in ids}


def test_every_class_is_known_to_the_style() -> None:
    used = {name for each in _every(sample_page()) for name in each.classes}
    assert used <= set(re.findall(r"\.([a-z][a-z0-9]*)", STYLE))


def test_each_group_has_a_page_with_links_to_its_neighbors() -> None:
    [overview, *groups] = sample_page().find_all("section")
    assert overview.attributes["id"] == "overview"
    assert [each.find("h1").text for each in groups] == [
        "Group payments",
        "Group shipping",
        "Group mail",
        "Group audit-2",
        "Group only-commits",
    ]
    assert groups[1].find("nav").text == "OverviewBefore: paymentsNext: mail"
    assert [each.attributes["href"] for each in groups[1].find("nav").find_all("a")] == [
        "#overview",
        "#group-1",
        "#group-3",
    ]


def test_the_overview_tells_what_was_found() -> None:
    text = sample_page().find_all("section")[0].text
    for part in (
        "From tables of production.",
        "since 2026-11-16 05:59:00.000",
        "first record2026-11-16 06:00:00.000",
        "records rejected4",
        "payments203.34m44s1m 1s37joined 9, left 7",
        "billing-7 10.0.0.71314131m 35s",
        "letters21,2001,234,5672h 1m205,561",
        "audit-9events04,711994h 20m2026-11-16 07:40:00.000still",
        "key of version 99record44",
        "records in all123,459",
    ):
        assert part in text


def test_what_is_left_out_is_told() -> None:
    [overview, payments, shipping, *_] = sample_page().find_all("section")
    assert "Shown: 5 of 61 groups, the most restless ones" in overview.text
    assert "Shown: 1 of 3 partitions, those that stood longest." in overview.text
    assert "28 short ownerships: hatched, as far as anybody owned it there." in payments.text
    assert "Shown: 16 of 116 rebalances, the latest ones." in shipping.text
    assert "1 partition that changed hands less often: left out." in shipping.text


def test_a_group_that_is_in_no_page_has_no_link() -> None:
    overview = sample_page().find_all("section")[0]
    assert "audit-9" in overview.text
    assert "audit-9" not in {each.text for each in overview.find_all("a")}


def test_a_report_of_nothing_says_so() -> None:
    page = parse(render(ReportFacts(source_name="an empty folder", made_at=datetime(2026, 11, 16, tzinfo=UTC))))
    assert "No rebalance is in what was read." in page.text
    assert "Nothing: every record was decoded." in page.text
    assert len(page.find_all("section")) == 1


def test_a_group_of_which_nothing_is_known_has_a_page() -> None:
    facts = ReportFacts(
        source_name="here",
        made_at=datetime(2026, 11, 16, tzinfo=UTC),
        groups=Bounded(rows=(GroupFacts(group="silent"),), total=1),
    )
    [_, page] = parse(render(facts)).find_all("section")
    assert page.find_all("svg") == []
    for part in ("only commits", "No rebalance", "No commit", "No member", "Not known: no log end"):
        assert part in page.text


def test_an_empty_group_has_a_protocol_type_and_no_protocol() -> None:
    facts = sample_facts()
    [stable, empty, *_] = facts.groups.rows
    groups = replace(facts.groups, rows=(stable, replace(empty, state="Empty", protocol=None)))
    _, first, second = parse(render(replace(facts, groups=groups))).find_all("section")
    assert "protocol typeconsumer" in first.text
    assert "protocolrange" in first.text
    assert "protocol typeconsumer" in second.text
    assert "protocolrange" not in second.text


def test_the_same_facts_are_the_same_page() -> None:
    facts = sample_facts()
    assert render(facts) == render(replace(facts))


def _every(element: Element) -> list[Element]:
    return [element, *(each for inner in element.inside for each in _every(inner))]
