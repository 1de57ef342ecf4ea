"""The sentences that conclude from the facts of a page, and the explanations of its tables."""

from dataclasses import replace
from datetime import timedelta

from kcoord.pipeline.report.model import Bounded, GroupFacts, ReportFacts
from kcoord.pipeline.report.page import render
from kcoord.pipeline.report.style import STYLE

from ...support.pipeline.pages import Element, parse
from .sample_facts import START, sample_facts


def sections(facts: ReportFacts) -> list[Element]:
    return parse(render(facts)).find_all("section")


def test_each_page_begins_with_what_happened_why_and_what_it_cost() -> None:
    overview, payments, *_ = sections(sample_facts())
    assert "4 of 61 groups rebalanced" in overview.find("p", "conclusion").text
    assert "most often payments: " in overview.find("p", "conclusion").text
    conclusion = payments.find("p", "conclusion").text
    count = sample_facts().groups.rows[0].rebalance_count
    assert f"It rebalanced {count} times, mostly by the cause " in conclusion
    assert "of the time. " in conclusion
    assert " It was at most " in conclusion


def test_a_group_without_rebalances_is_concluded_from_nothing_else() -> None:
    quiet = replace(sample_facts(), groups=Bounded(rows=(GroupFacts(group="g"),), total=1), unstable=Bounded())
    overview, group = sections(quiet)
    assert overview.find("p", "conclusion").text.startswith("None of 1 group rebalanced.")
    assert group.find("p", "conclusion").text == "It did not rebalance. How far it was behind is not known."


def test_columns_are_explained_where_they_are() -> None:
    captions = [caption.text for caption in sections(sample_facts())[0].find_all("caption")]
    assert sum("Time in them: " in text for text in captions) == 2
    assert sum("Paused: " in text for text in captions) == 1


def test_a_rate_per_hour_of_less_than_an_hour_is_flagged() -> None:
    short = replace(sample_facts(), hours=1.0)
    remark = "Per hour: less than an hour of records was read, which counts as one."
    assert remark in sections(short)[0].text
    # The hours are those of everything that was read; the group's records may span only a part of them.
    part = replace(short, hours=6.0, last_at=START + timedelta(minutes=20))
    assert "less than an hour" not in sections(part)[0].text


def test_the_pauses_around_rebalances_are_part_of_what_they_cost() -> None:
    facts = sample_facts()
    first, *others = facts.groups.rows
    restless = replace(facts.unstable.rows[0], pause_ms=2_380_000)
    paused = replace(
        facts,
        groups=replace(facts.groups, rows=(replace(first, pause_ms=2_380_000), *others)),
        unstable=replace(facts.unstable, rows=(restless, *facts.unstable.rows[1:])),
    )
    overview, payments, *_ = sections(paused)
    pause = "Around them it committed nothing for 39m 40s together, at most."
    assert pause in overview.find("p", "conclusion").text
    assert pause in payments.find("p", "conclusion").text
    unpaused = replace(paused, groups=Bounded(rows=(replace(first, pause_ms=None),), total=1))
    assert "committed nothing" not in sections(unpaused)[1].find("p", "conclusion").text


def test_rebalances_whose_length_the_log_does_not_show_are_not_said_to_take_no_time() -> None:
    facts = sample_facts()
    first, *others = facts.groups.rows
    restless = replace(facts.unstable.rows[0], lost_ms=0)
    timeless = replace(
        facts,
        groups=replace(facts.groups, rows=(replace(first, lost_ms=0), *others)),
        unstable=replace(facts.unstable, rows=(restless, *facts.unstable.rows[1:])),
    )
    for page in sections(timeless)[:2]:
        conclusion = page.find("p", "conclusion").text
        assert "the log does not show how long they took." in conclusion
        assert "at least" not in conclusion


def test_what_explains_a_table_is_read_without_scrolling_it() -> None:
    for caption in sections(sample_facts())[0].find_all("caption"):
        assert caption.find("span").text == caption.text
    stays = STYLE.partition("caption span{")[2].partition("}")[0]
    assert {"position:sticky", "left:0"} <= {*stays.split(";")}


def test_what_explains_a_table_never_makes_it_wider_than_the_page() -> None:
    body = STYLE.partition("body{")[2].partition("}")[0]
    assert "max-width:70rem" in body
    # The page less its margins, and on a narrow screen less the shade that tells that a table scrolls.
    assert "max-width:min(100vw - 3rem,67rem)" in STYLE.partition("caption span{")[2].partition("}")[0]


def test_short_ownerships_are_hatched_and_a_complete_lane_is_not() -> None:
    _, payments, *_ = sections(sample_facts())
    assert payments.find_all("line", "brief")
    facts = sample_facts().groups.rows[0]
    lanes = tuple(replace(each, spans=replace(each.spans, total=len(each.spans.rows))) for each in facts.ownership.rows)
    whole = replace(facts, ownership=replace(facts.ownership, rows=lanes))
    _, page = sections(replace(sample_facts(), groups=Bounded(rows=(whole,), total=1)))
    assert not page.find_all("line", "brief")


def test_a_table_that_scrolls_has_a_shadow_at_the_side_that_is_hidden() -> None:
    assert "scroll no-repeat" in STYLE.partition(".scroll{")[2].partition("}")[0]
