"""docs/facts.md and the ids that tests carry agree. `make facts` runs those tests."""

from tests.facts import PAGE, Status, Watch, facts, markers, problems, shortcomings


def test_every_fact_is_shown_or_it_is_said_why_not() -> None:
    assert problems(facts(), markers()) == []


def test_every_line_of_the_page_that_looks_like_a_fact_is_read_as_one() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and line[3:4] == "-"]
    assert len(rows) == len(facts())


def test_a_fact_without_a_test_and_a_test_without_a_fact_are_noticed() -> None:
    known, tests = facts(), markers()
    shown = next(fact for fact in known.values() if fact.status is Status.SHOWN)
    hidden = next(fact for fact in known.values() if fact.status is not Status.SHOWN)
    assert problems(known, tests.keys() - {shown.id}) == [f"{shown.id}: said to be shown, and no test carries it"]
    assert problems(known, [*tests, hidden.id]) == [f"{hidden.id}: {hidden.status}, and yet a test carries it"]
    assert problems(known, [*tests, "Z-999"]) == ["Z-999: a test carries it, docs/facts.md does not know it"]


def test_a_fact_is_not_shown_by_a_test_that_fails_or_does_not_run() -> None:
    known, watch = facts(), Watch()
    watch.tests = {fact_id: set(tests) for fact_id, tests in markers().items()}
    watch.passed = {test for tests in watch.tests.values() for test in tests}
    assert shortcomings(known, watch) == []
    failed, unseen = sorted(watch.tests["H-009"])[0], sorted(watch.tests["L-001"])[0]
    watch.bad[failed] = "failed"
    watch.passed -= {failed, unseen}
    assert shortcomings(known, watch) == [f"H-009: {failed} failed", f"L-001: {unseen} was not run"]
