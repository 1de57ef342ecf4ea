"""Which facts about Kafka are shown by tests: `make facts` runs those tests and prints the status of each fact.

docs/facts.md has every fact under an id, with its status:

| status   | means                                                                                      |
|----------|--------------------------------------------------------------------------------------------|
| shown    | tests carry its id, `@pytest.mark.fact("J-001")`, and they pass                            |
| deviates | kcoord does otherwise on purpose; the reason is in docs/deviations.md, which it links to   |
| not yet  | and why                                                                                    |
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "facts.md"
DEVIATIONS: Final = ROOT / "docs" / "deviations.md"

_ROW: Final = re.compile(r"^\| (?P<id>[A-Z]-\d{3}) \| (?P<fact>.+) \| (?P<status>[^|]+) \|$", re.MULTILINE)
_LINK: Final = re.compile(r"\(deviations\.md#([a-z-]+)\)")
_ANCHOR: Final = re.compile(r'<a id="([a-z-]+)"></a>')


class Status(StrEnum):
    SHOWN = "shown"
    DEVIATES = "deviates"
    NOT_YET = "not yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    id: str
    text: str
    status: Status
    remark: str  # what follows the status: a reason


def facts() -> dict[str, Fact]:
    """Parses the rows of docs/facts.md."""
    rows = [_fact(row) for row in _ROW.finditer(PAGE.read_text())]
    assert len({fact.id for fact in rows}) == len(rows), "an id is there twice"
    return {fact.id: fact for fact in rows}


def markers() -> dict[str, list[str]]:
    """Returns tests by the ids that they carry, parsed from the sources: nothing is imported or run."""
    tests: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, fact_id in _markers_of(path):
            tests.setdefault(fact_id, []).append(test)
    return tests


def problems(known: Mapping[str, Fact], marked: Iterable[str]) -> list[str]:
    """Returns what is inconsistent in the page, in the ids that tests carry, or between the two."""
    carried = set(marked)
    anchors = set(_ANCHOR.findall(DEVIATIONS.read_text()))
    found = [
        f"{fact_id}: a test carries it, docs/facts.md does not know it" for fact_id in sorted(carried - set(known))
    ]
    for fact in known.values():
        is_carried = fact.id in carried
        if fact.status is Status.SHOWN and not is_carried:
            found.append(f"{fact.id}: said to be shown, and no test carries it")
        if fact.status is not Status.SHOWN and is_carried:
            found.append(f"{fact.id}: {fact.status}, and yet a test carries it")
        if fact.status is not Status.SHOWN and not fact.remark:
            found.append(f"{fact.id}: {fact.status}, and no reason is given")
        links = set(_LINK.findall(fact.remark))
        if fact.status is Status.DEVIATES and not links:
            found.append(f"{fact.id}: no link to a row of docs/deviations.md")
        found += [f"{fact.id}: docs/deviations.md has no row {anchor}" for anchor in sorted(links - anchors)]
    return found


class Watch:
    """A plugin of pytest that records which test carries which ids, and its outcome."""

    def __init__(self) -> None:
        self.tests: dict[str, set[str]] = {}  # by fact
        self.bad: dict[str, str] = {}  # tests that did not pass, and their outcomes
        self.passed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for marker in item.iter_markers("fact"):
                for fact_id in marker.args:
                    self.tests.setdefault(fact_id, set()).add(_without_parameters(item.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = _without_parameters(report.nodeid)
        if report.outcome != "passed":
            self.bad[test] = report.outcome
        elif report.when == "call":
            self.passed.add(test)


def shortcomings(known: Mapping[str, Fact], watch: Watch) -> list[str]:
    """Returns the problems, and the tests that carry a fact and do not show it."""
    found = problems(known, watch.tests)
    for fact_id, tests in sorted(watch.tests.items()):
        found += [f"{fact_id}: {test} {watch.bad[test]}" for test in sorted(tests) if test in watch.bad]
        found += [f"{fact_id}: {test} was not run" for test in sorted(tests - watch.passed - set(watch.bad))]
    return found


def main() -> int:
    watch = Watch()
    exit_code = pytest.main(["-q", "--no-header", "-m", "fact"], plugins=[watch])
    known = facts()
    found = shortcomings(known, watch)
    print("\n".join(_line(fact, watch.tests.get(fact.id, set())) for fact in known.values()))
    print(_totals(known.values()))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found or exit_code else 0


def _fact(row: re.Match[str]) -> Fact:
    status = next((status for status in Status if row["status"].startswith(status)), None)
    assert status is not None, f"{row['id']}: {row['status']!r} begins with none of {', '.join(Status)}"
    remark = row["status"].removeprefix(status).strip(" :;")
    return Fact(id=row["id"], text=row["fact"], status=status, remark=remark)


def _markers_of(path: Path) -> Iterator[tuple[str, str]]:
    for function in ast.parse(path.read_text()).body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name.startswith("test_"):
            name = f"{path.relative_to(ROOT)}::{function.name}"
            for marker in (each for each in function.decorator_list if _is_fact(each)):
                assert isinstance(marker, ast.Call), f"{name}: a fact has an id"
                yield from ((name, ast.literal_eval(argument)) for argument in marker.args)


def _is_fact(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called) == "pytest.mark.fact"


def _without_parameters(node_id: str) -> str:
    return node_id.partition("[")[0]


def _line(fact: Fact, tests: set[str]) -> str:
    if fact.status is not Status.SHOWN:
        return f"{fact.id}  {fact.status:8}  {fact.remark}"
    first, *others = sorted(tests) or ["?"]
    return f"{fact.id}  {fact.status:8}  {first}" + (f" and {len(others)} more" if others else "")


def _totals(known: Iterable[Fact]) -> str:
    statuses = [fact.status for fact in known]
    return f"{len(statuses)} facts: " + ", ".join(f"{statuses.count(status)} {status}" for status in Status)


if __name__ == "__main__":
    sys.exit(main())
