"""The page of metrics and the dashboard tell of the metrics that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kcoord.groups.effects import Cause
from kcoord.metrics.catalogue import FAMILIES, Family, Kind
from kcoord.metrics.reasons import Closing
from kcoord.security.refusals import Refusal
from kcoord.upstream.watched_group import Cause as SeenCause

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "metrics.md").read_text(encoding="utf-8")
BOARD: dict[str, Any] = json.loads((DOCS / "grafana" / "kcoord.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
OF_PROCESS = {"process_cpu_seconds_total"}


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.shown_name}` | {family.kind} | {labels} | {family.about} |"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_on_the_page_as_it_is(family: Family) -> None:
    assert row(family) in PAGE.splitlines()


def test_nothing_else_is_on_the_page() -> None:
    assert set(re.findall(r"^\| `(kcoord_\w+)`", PAGE, re.MULTILINE)) == {family.shown_name for family in FAMILIES}


@pytest.mark.parametrize(
    "word", [*(closing for closing in Closing if closing is not Closing.REFUSED), *Refusal, *Cause, *SeenCause]
)
def test_every_word_of_a_label_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_families_have_names_that_prometheus_likes() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"kcoord(_[a-z]+)+", family.name)
        assert not family.name.endswith("_total")
        assert family.name.endswith("_seconds") or family.kind is not Kind.HISTOGRAM
        assert family.about.endswith(".")
        assert not {"group", "topic", "client", "member", "user", "principal"} & set(family.labels)


def queries() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def names_in(query: str) -> set[str]:
    return set(re.findall(r"\b(?:kcoord|process)_\w+", query))


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_dashboard_asks_for_what_there_is(query: str) -> None:
    known = OF_PROCESS | {family.shown_name for family in FAMILIES if family.kind is not Kind.HISTOGRAM}
    known |= {f"{family.name}_bucket" for family in FAMILIES if family.kind is Kind.HISTOGRAM}
    assert names_in(query)
    assert names_in(query) <= known
    assert query.count("(") == query.count(")")
    labels = {label for family in FAMILIES for label in family.labels if names_in(query) & _told_as(family)}
    grouped = set(re.split(r", ", ", ".join(re.findall(r"by \(([^)]*)\)", query)))) - {"", "le", "instance"}
    assert grouped <= labels


def _told_as(family: Family) -> set[str]:
    return {f"{family.name}_bucket"} if family.kind is Kind.HISTOGRAM else {family.shown_name}


def test_the_dashboard_shows_every_family_but_the_build() -> None:
    asked = {name.removesuffix("_bucket") for query in queries() for name in names_in(query)}
    assert {family.shown_name for family in FAMILIES} - asked == {"kcoord_build_info"}
    assert "kcoord_build_info" in json.dumps(BOARD["templating"])


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert isinstance(BOARD["schemaVersion"], int)
    assert BOARD["title"] == "kcoord"
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"] == [
        *("Clients", "Requests", "Groups", "Journal", "Proxy")
    ]
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(BOARD["panels"])))
    assert used == set(variables)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_targets_of_the_chosen_source_and_a_place_of_its_own(panel: dict[str, Any]) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    assert panel["targets"]
    assert all(target["datasource"] == source for target in panel["targets"])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    place = panel["gridPos"]
    assert place["x"] + place["w"] <= 24
    overlapping = [other for other in BOARD["panels"] if other is not panel and _overlaps(other["gridPos"], place)]
    assert not overlapping


def _overlaps(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not (beside or above)
