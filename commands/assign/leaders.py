"""What a group would get if its leader were of another client library, and which lists of strategies a library refuses.

In a group without KIP-848 the leader plans, and its library decides how. A group with clients of several libraries gets
another plan when another member becomes the leader."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kcoord.assignors.comparison import Outcome, owners
from kcoord.assignors.libraries.table import LIBRARIES, Library, LibraryStrategy, refusal
from kcoord.assignors.racks import racks_matter
from kcoord.assignors.scenario import Scenario
from kcoord.assignors.strategies import STRATEGIES

from ..output.tables import Cell, Column, Table, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOutcome:
    """What a strategy of a library makes of a group. `elsewhere` is how many partitions have another owner than by
    Java's strategy of that name, or None if one of both makes no plan. `racks` says what is missing if racks make a
    difference that is not planned here."""

    library: Library
    strategy: LibraryStrategy
    outcome: Outcome
    elsewhere: int | None
    racks: str | None = None

    @property
    def differs(self) -> bool:
        """Whether the plan is another one than Java's."""
        return self.elsewhere != 0


def compare_leaders(
    scenario: Scenario, libraries: Sequence[str], outcomes: Mapping[str, Outcome]
) -> list[LeaderOutcome]:
    """Returns what each of these libraries would plan by each of the strategies whose outcomes are given, if it has
    it. `outcomes` are those of Java's strategies."""
    return [
        _leader(scenario, LIBRARIES[library], strategy, outcomes[name])
        for library in libraries
        for name, strategy in LIBRARIES[library].strategies.items()
        if name in outcomes
    ]


def _leader(scenario: Scenario, library: Library, strategy: LibraryStrategy, java: Outcome) -> LeaderOutcome:
    outcome = scenario.outcome(strategy.assign, STRATEGIES[strategy.name].style)
    elsewhere = None
    if outcome.failure is None and java.failure is None:
        library_owners, java_owners = owners(outcome.plan), owners(java.plan)
        partitions = library_owners.keys() | java_owners.keys()
        elsewhere = sum(library_owners.get(each) != java_owners.get(each) for each in partitions)
    racks = strategy.unplanned_racks if racks_matter(scenario.after.members, scenario.after.topics) else None
    return LeaderOutcome(library=library, strategy=strategy, outcome=outcome, elsewhere=elsewhere, racks=racks)


def leaders_table(leaders: Collection[LeaderOutcome]) -> Table:
    """Returns the table of libraries: one row for each strategy that a library has."""
    columns = (
        Column("LEADER"),
        Column("STRATEGY"),
        Column("LEAST", align="right"),
        Column("MOST", align="right"),
        Column("MOVED", align="right"),
        Column("PAUSED", align="right"),
        Column("NOT-AS-JAVA", align="right"),
        Column("DIFFERENCE"),
    )
    rows = [_row(each) for each in leaders]
    for row, previous in zip(rows[:0:-1], rows[-2::-1], strict=True):
        if row[-1] == previous[-1]:
            row[-1] = "the same"
    return Table(
        columns=columns,
        rows=rows,
        title="if the leader is another library; NOT-AS-JAVA counts partitions with another owner than by Java's plan",
    )


def _row(leader: LeaderOutcome) -> list[Value]:
    outcome, strategy = leader.outcome, leader.strategy
    row: list[Value] = [leader.library.name, strategy.name]
    if outcome.failure is not None:
        return [*row, Cell("fails", "red"), None, None, None, None, outcome.failure]
    balance = outcome.balance()
    has_before = any(outcome.before.values())
    difference = strategy.difference
    if not strategy.is_exact:
        difference += f" Chance plays a part in it; all its plans share {strategy.guarantee}."
    if leader.racks is not None:
        difference += f" {leader.racks}"
    return [
        *row,
        f"{balance.least:g}",
        f"{balance.most:g}",
        len(outcome.moved) if has_before else None,
        len(outcome.paused) if has_before else None,
        None if leader.elsewhere is None else Cell(f"{leader.elsewhere:,}", "yellow" if leader.differs else ""),
        difference,
    ]


def leader_documents(leaders: Collection[LeaderOutcome]) -> list[dict[str, Any]]:
    """Returns the JSON objects of the libraries' plans."""
    return [
        {
            "library": each.library.name,
            "version": each.library.version,
            "strategy": each.strategy.name,
            "is_exact": each.strategy.is_exact,
            "difference": each.strategy.difference,
            "guarantee": each.strategy.guarantee,
            "racks": each.racks,
            "not_as_java": each.elsewhere,
            "failure": each.outcome.failure,
            "moved": len(each.outcome.moved),
            "paused": len(each.outcome.paused),
            "rebalances": each.outcome.rebalances,
            "assignment": [
                {"member_id": member_id, "partitions": {topic: list(numbers) for topic, numbers in held.items()}}
                for member_id, held in each.outcome.plan.items()
            ],
        }
        for each in leaders
    ]


def refusals_table(strategies: Sequence[str]) -> Table:
    """Returns the table of what each library does with a client that lists these strategies."""
    rows: list[list[Value]] = []
    for name, library in LIBRARIES.items():
        error = refusal(name, strategies)
        answer = Cell("refuses", "red") if error else Cell("accepts", "green")
        rows.append([name, answer, error or library.mixes])
    return Table(
        columns=(Column("LIBRARY"), Column("ANSWER"), Column("WHY")),
        rows=rows,
        title=f"a client with partition.assignment.strategy = {', '.join(strategies)}",
    )


def refusal_documents(strategies: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the JSON objects of what each library does with a client that lists these strategies."""
    return [{"library": name, "refusal": refusal(name, strategies)} for name in LIBRARIES]
