"""Kafka's cases are played by kcoord's assignors and by Kafka's, which shows that they are written down rightly."""

import pytest

from tests.assignors.cases import Case
from tests.assignors.java_assignors import JavaAssignors
from tests.assignors.vectors.vectors import PlanOf


@pytest.fixture(params=["kcoord", "Kafka"])
def plan_of(request: pytest.FixtureRequest) -> PlanOf:
    if request.param == "kcoord":
        return Case.plan
    java: JavaAssignors = request.getfixturevalue("java")

    def plan_by_java(case: Case) -> dict[str, dict[str, set[int]]]:
        plan = java.plan(case)
        assert isinstance(plan, dict), plan
        return plan

    return plan_by_java
