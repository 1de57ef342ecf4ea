"""The JSON document of `kcoord assign compare`. The names of fields are part of the format: see docs/assignors.md."""

from collections.abc import Iterable, Mapping
from typing import Any

from kcoord.assignors.comparison import Balance, Outcome, balance_of, weight_of
from kcoord.assignors.plan import Partition, Subscriber, TopicPartitions, count_partitions
from kcoord.assignors.strategies import STRATEGIES

from .comparison import Comparison
from .leaders import leader_documents, refusal_documents


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Returns the document: the group, the present assignment, and each strategy with its plan and what it costs."""
    scenario = comparison.scenario
    return {
        "group": comparison.group,
        "strategy": comparison.present,
        "changed": scenario.is_changed,
        "topics": [
            {"topic": topic, "partitions": count, "before": scenario.before.topics.counts.get(topic)}
            for topic, count in scenario.after.topics.counts.items()
        ],
        "members": [_member(each) for each in scenario.after.members],
        "now": None if scenario.current is None else _assignment(comparison, scenario.current),
        "strategies": [_strategy(comparison, name, outcome) for name, outcome in comparison.outcomes.items()],
        "leaders": leader_documents(comparison.leaders),
        "client_strategies": refusal_documents(comparison.client_strategies) if comparison.client_strategies else [],
    }


def _member(member: Subscriber) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack": member.rack or None,
        "topics": list(member.topics),
    }


def _strategy(comparison: Comparison, name: str, outcome: Outcome) -> dict[str, Any]:
    strategy = STRATEGIES[name]
    return {
        "strategy": name,
        "rebalance": strategy.style.value,
        "is_server_side": strategy.is_server_side,
        "failure": outcome.failure,
        "rebalances": outcome.rebalances,
        "moved": _partitions(outcome.moved),
        "started": _partitions(outcome.started),
        "stopped": _partitions(outcome.stopped),
        "paused": _partitions(outcome.paused),
        **_assignment(comparison, outcome.plan),
    }


def _assignment(comparison: Comparison, assignment: Mapping[str, TopicPartitions]) -> dict[str, Any]:
    lags, rates = comparison.scenario.lags, comparison.scenario.rates
    return {
        "spread": _spread(balance_of(assignment)),
        "lag_spread": None if lags is None else _spread(balance_of(assignment, lags)),
        "rate_spread": None if rates is None else _spread(balance_of(assignment, rates)),
        "assignment": [
            {
                "member_id": member_id,
                "count": count_partitions(held),
                "lag": None if lags is None else weight_of(held, lags),
                "rate": None if rates is None else round(weight_of(held, rates), 3),
                "partitions": {topic: list(numbers) for topic, numbers in held.items()},
            }
            for member_id, held in assignment.items()
        ],
    }


def _spread(balance: Balance) -> dict[str, float]:
    return {
        "min": round(balance.least, 3),
        "max": round(balance.most, 3),
        "deviation": round(balance.deviation, 3),
    }


def _partitions(partitions: Iterable[Partition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": number} for topic, number in sorted(partitions)]
