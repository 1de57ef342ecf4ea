"""The tables of the overview, as data: which rows, which columns, and what is written if there are no rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kcoord.markup import Child, Markup, el
from kcoord.pipeline.report.conclusions import short_time_remark
from kcoord.pipeline.report.formatting import format_duration, format_name, format_number, format_rate, format_time
from kcoord.pipeline.report.group_page import last_known
from kcoord.pipeline.report.html_tables import Column, Kind, table, truncation_note
from kcoord.pipeline.report.model import (
    Bounded,
    FlappingMember,
    GroupFacts,
    NeverCaughtUp,
    RejectedReason,
    ReportFacts,
    StuckPartition,
    UnstableGroup,
)

Anchors = Mapping[str, str]
"""The anchor of a group's page, by the group's id."""
Row = TypeVar("Row")

_TIME_IN_REBALANCES: Final = (
    "Time in them: how long its rebalances took together, as far as the log shows it, at least."
)
_PAUSED: Final = "Paused: from the last commit before each to the first one after it, added up, at most."


def _no_remarks(facts: ReportFacts) -> Sequence[str | None]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewTable(Generic[Row]):
    """A table of the first rows of some kind."""

    rows_of: Callable[[ReportFacts], Bounded[Row]]
    if_empty: str
    """The sentence that stands in its place if there are no rows."""
    group_of: Callable[[Row], str] | None = None
    """The group of a row: the first column then links to its page, before the other `columns`."""
    columns: Sequence[tuple[str, Kind, Callable[[Row], Child]]]
    """The label and kind of each column, and its cell of a row."""
    row_name: str
    shown_rows: str
    """Which rows are shown if there are too many."""
    remarks: Callable[[ReportFacts], Sequence[str | None]] = _no_remarks
    """The sentences of the caption, behind the one about rows that are not shown."""

    def render(self, facts: ReportFacts, anchors: Anchors) -> Markup:
        some = self.rows_of(facts)
        if not some.rows:
            return quiet(self.if_empty)
        group_of = self.group_of
        links = [Column("group", "name")] if group_of else []
        columns = [*links, *(Column(label, kind) for label, kind, _ in self.columns)]
        rows = [
            [
                *([group_link(group_of(row), anchors)] if group_of else []),
                *(cell_of(row) for _, _, cell_of in self.columns),
            ]
            for row in some.rows
        ]
        note = truncation_note(some, self.row_name, which=self.shown_rows)
        return table(columns, rows, caption=" ".join(each for each in (note, *self.remarks(facts)) if each))


def quiet(text: str) -> Markup:
    """Renders a sentence in place of a table or chart that would be empty."""
    return el("p", text, class_="quiet")


def group_link(group: str, anchors: Anchors) -> Markup:
    """Links to the page of the group, if the report has one."""
    anchor = anchors.get(group)
    return el("a", format_name(group), href=f"#{anchor}") if anchor else format_name(group)


def _causes(group: UnstableGroup) -> str:
    """Lists the causes, the most frequent first."""
    by_count = sorted(group.causes.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{cause} {format_number(count)}" for cause, count in by_count)


UNSTABLE: Final[OverviewTable[UnstableGroup]] = OverviewTable(
    rows_of=lambda facts: facts.unstable,
    if_empty="None: no group rebalanced.",
    group_of=lambda each: each.group,
    columns=(
        ("rebalances", "number", lambda each: format_number(each.rebalances)),
        ("per hour", "number", lambda each: format_rate(each.per_hour)),
        ("time in them", "number", lambda each: format_duration(each.lost_ms)),
        ("longest", "number", lambda each: format_duration(each.longest_ms)),
        ("paused", "number", lambda each: format_duration(each.pause_ms)),
        ("partitions moved", "number", lambda each: format_number(each.moved_partitions)),
        ("causes", "name", lambda each: format_name(_causes(each))),
    ),
    row_name="group",
    shown_rows="those that rebalanced most",
    remarks=lambda facts: (_TIME_IN_REBALANCES, _PAUSED, short_time_remark(facts)),
)
FLAPPING: Final[OverviewTable[FlappingMember]] = OverviewTable(
    rows_of=lambda facts: facts.flapping,
    if_empty="None.",
    group_of=lambda each: each.group,
    columns=(
        ("member", "name", lambda each: format_name(each.member)),
        ("came back", "number", lambda each: format_number(each.returned)),
        ("joined", "number", lambda each: format_number(each.joined)),
        ("left", "number", lambda each: format_number(each.left)),
        ("stayed", "number", lambda each: format_duration(each.stayed_ms)),
        ("first", "time", lambda each: format_time(each.first_at)),
        ("last", "time", lambda each: format_time(each.last_at)),
    ),
    row_name="member",
    shown_rows="those that did so most often",
)
NEVER_CAUGHT_UP: Final[OverviewTable[NeverCaughtUp]] = OverviewTable(
    rows_of=lambda facts: facts.never_caught_up,
    if_empty="None, as far as log ends were read.",
    group_of=lambda each: each.group,
    columns=(
        ("topic", "name", lambda each: format_name(each.topic)),
        ("partition", "number", lambda each: str(each.partition)),
        ("lowest lag", "number", lambda each: format_number(each.lowest_lag)),
        ("lag at the end", "number", lambda each: format_number(each.last_lag)),
        ("behind", "number", lambda each: format_duration(each.last_lag_ms)),
        ("grows per hour", "number", lambda each: format_rate(each.per_hour)),
        ("since", "time", lambda each: format_time(each.since)),
    ),
    row_name="partition",
    shown_rows="those with the largest lag",
)
STUCK: Final[OverviewTable[StuckPartition]] = OverviewTable(
    rows_of=lambda facts: facts.stuck,
    if_empty="None, as far as log ends were read.",
    group_of=lambda each: each.group,
    columns=(
        ("topic", "name", lambda each: format_name(each.topic)),
        ("partition", "number", lambda each: str(each.partition)),
        ("committed", "number", lambda each: format_number(each.committed)),
        ("lag", "number", lambda each: format_number(each.lag)),
        ("stood", "number", lambda each: format_duration(each.stood_ms)),
        ("since", "time", lambda each: format_time(each.since)),
        ("until", "time", lambda each: format_time(each.until) if each.until else "still"),
    ),
    row_name="partition",
    shown_rows="those that stood longest",
)
REJECTED: Final[OverviewTable[RejectedReason]] = OverviewTable(
    rows_of=lambda facts: facts.rejected,
    if_empty="Nothing: every record was decoded.",
    columns=(
        ("reason", "name", lambda each: format_name(each.reason)),
        ("of what", "text", lambda each: format_name(each.what)),
        ("how often", "number", lambda each: format_number(each.rows)),
        ("records", "number", lambda each: format_number(each.records)),
        ("last", "time", lambda each: format_time(each.last_at)),
    ),
    row_name="reason",
    shown_rows="the most frequent ones",
)
GROUPS: Final[OverviewTable[GroupFacts]] = OverviewTable(
    rows_of=lambda facts: facts.groups,
    if_empty="None.",
    group_of=lambda each: each.group,
    columns=(
        ("kind", "text", lambda each: format_name(each.kind or "only commits")),
        ("state at the end", "text", lambda each: format_name(each.state)),
        ("members seen", "number", lambda each: format_number(each.members.total)),
        ("rebalances", "number", lambda each: format_number(each.rebalance_count)),
        ("time in them", "number", lambda each: format_duration(each.lost_ms)),
        ("commits", "number", lambda each: format_number(each.commit_count)),
        ("lag at the end", "number", lambda each: format_number(last_known(each.lag))),
    ),
    row_name="group",
    shown_rows="the most restless ones, then those with the largest lag; --group shows others",
    remarks=lambda facts: (_TIME_IN_REBALANCES,),
)
