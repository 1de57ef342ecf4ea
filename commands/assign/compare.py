"""`kcoord assign compare`: what each strategy makes of a group."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from kcoord.admin.groups.group_scenario import LiveScenario, read_scenario
from kcoord.admin.model import Refusal
from kcoord.assignors.comparison import Outcome
from kcoord.assignors.libraries.table import LIBRARIES
from kcoord.assignors.scenario import Scenario
from kcoord.assignors.strategies import STRATEGIES

from ..opening import open_cluster
from ..options.connection_options import connection, connection_options
from ..output.output import Table, echo_err, output_of, output_options, progress, show
from .comparison import Comparison, added_labels, member_labels, present_strategy
from .comparison import compare as compare_strategies
from .comparison_document import comparison_document
from .comparison_tables import plan_rows, plan_tables, summary_table
from .leaders import compare_leaders, leaders_table, refusals_table
from .plan_picture import draw_plans
from .scenario_options import ScenarioOptions, scenario_options

ALL: Final = "all"
JAVA: Final = "java"  # what all other libraries are compared with
_MAX_MEMBERS_SHOWN: Final = 30


def _strategies(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    known = [name for name, each in STRATEGIES.items() if not each.is_server_side]
    if unknown := [name for name in names if name not in known]:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}")
    return names


@click.command(short_help="What each strategy gives: who gets what, what moves, what pauses.")
@scenario_options
@click.option(
    "--strategy",
    "names",
    multiple=True,
    type=click.Choice(list(STRATEGIES)),
    help="Compare these strategies; all of them without it. May be repeated.",
)
@click.option(
    "--leader",
    "libraries",
    multiple=True,
    type=click.Choice([*(each for each in LIBRARIES if each != JAVA), ALL]),
    help="What if the leader were of this client library? May be repeated.",
)
@click.option(
    "--client-strategies",
    callback=_strategies,
    metavar="STRATEGY,…",
    help="Which libraries refuse a client with this list, such as range,cooperative-sticky?",
)
@click.option(
    "--plans/--no-plans",
    "with_plans",
    default=None,
    help=f"Show who gets what, or only the summary. Without it: unless there are over {_MAX_MEMBERS_SHOWN} members.",
)
@click.option(
    "--svg",
    "svg_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also draw the plans into this SVG file.",
)
@connection_options
@output_options
@click.pass_context
def compare(
    ctx: click.Context,
    given: ScenarioOptions,
    names: tuple[str, ...],
    libraries: tuple[str, ...],
    client_strategies: tuple[str, ...],
    with_plans: bool | None,
    svg_path: Path | None,
) -> None:
    """Compare strategies for a group: who gets which partitions, how even that is, what moves, what pauses.

    \b
    kcoord assign compare --topic orders:12 --topic payments:6 --members 4
    kcoord assign compare --topic orders:12 --members 4 --add-members 2
    kcoord assign compare --group payments --add-members 3 -b broker:9092
    kcoord assign compare --group payments --strategy cooperative-sticky
    kcoord assign compare --file group.yaml --racks a,b,c --svg plans.svg
    kcoord assign compare --group payments --leader all --strategy range

    The plans are exactly Kafka's. A live group starts from its present assignment; a group that is only described
    starts from what its members own or, with a what-if, from each strategy's own plan.

    MOVED partitions get another owner, NEW ones had none, UNREAD ones have none any more. PAUSED partitions are read by
    nobody for a while: all of them with an eager strategy, which stops everything before a rebalance; those that move
    with a cooperative one, which needs a second rebalance to hand them over; and those that move, one member at a time
    and without a rebalance of the group, with the server-side strategies of KIP-848 (uniform and server-range). LEAST,
    MOST and DEVIATION are partitions per member; LAG and RATE are the records behind these partitions, of a live group.
    LOCAL partitions have a replica in their owner's rack.
    """
    live: LiveScenario | None = None
    if given.group is None:
        scenario = given.described()
    else:
        with open_cluster(connection(ctx), about=[given.group]) as cluster:
            read = read_scenario(cluster, given.group, at=time.time(), rates_over=given.rates_over)
        if isinstance(read, Refusal):
            raise click.ClickException(str(read))
        live, scenario = read, read.scenario
    comparison = _compare(given.changed(scenario), live, names or tuple(STRATEGIES))
    chosen = [each for each in LIBRARIES if each != JAVA and (each in libraries or ALL in libraries)]
    comparison = replace(
        comparison,
        leaders=compare_leaders(comparison.scenario, chosen, comparison.outcomes),
        client_strategies=client_strategies,
    )
    if svg_path is not None:
        svg_path.write_text(draw_plans(comparison), encoding="utf-8")

    def tables() -> list[Table]:
        if output_of(ctx).format == "csv":
            return [plan_rows(comparison)]
        is_small = len(comparison.scenario.after.members) <= _MAX_MEMBERS_SHOWN
        shows_plans = is_small if with_plans is None else with_plans
        if not is_small and with_plans is None:
            echo_err("the plans of so many members are not shown: --plans shows them")
        return [
            summary_table(comparison),
            *([leaders_table(comparison.leaders)] if comparison.leaders else ()),
            *([refusals_table(client_strategies)] if client_strategies else ()),
            *(plan_tables(comparison) if shows_plans else ()),
        ]

    show(ctx, "assign-compare", lambda: comparison_document(comparison), tables)
    for refusal in live.refused if live is not None else ():
        echo_err(f"kcoord: {refusal}")
    if (live is not None and live.refused) or any(each.failure for each in comparison.outcomes.values()):
        sys.exit(1)


def _compare(scenario: Scenario, live: LiveScenario | None, names: tuple[str, ...]) -> Comparison:
    outcomes: dict[str, Outcome] = {}
    with progress("planning", len(names)) as bar:
        for name in names:
            outcomes |= compare_strategies(scenario, [name])
            bar.advance()
    if live is None:
        return Comparison(scenario=scenario, outcomes=outcomes, labels=added_labels(scenario))
    return Comparison(
        scenario=scenario,
        outcomes=outcomes,
        group=live.seen.group.name,
        present=present_strategy(live.seen.group),
        labels=member_labels(live) | added_labels(scenario),
    )
