"""`make test`: every test, and what failed of real clients once more, alone: python -m tests.run [pytest's arguments]

Real clients, brokers and terminals on a busy machine now and then take longer than any patience. So a few failures
of tests that wait for such get a second try, in a process of its own with nothing beside it. What fails again has
failed; what does not is named at the end, and is to be looked into. Where chance is what is tested (durability,
differential, simulation), and where nothing waits, there is no second try: what failed once is wrong.
"""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import pytest

_WAITING: Final = ("tests/commands/", "tests/integration/", "tests/testing/")
_MOST: Final = 3


class Failures:
    """A plugin that notes what failed."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.names[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.names[report.nodeid] = None


def main(arguments: Sequence[str]) -> int:
    failures = Failures()
    code = int(pytest.main([*arguments], plugins=[failures]))
    if code != pytest.ExitCode.TESTS_FAILED or not deserve_a_second_try(failures.names):
        return code
    names = [*failures.names]
    print(f"\nonce more, alone: {', '.join(names)}", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *names]).returncode
    if not again:
        print(f"failed once, and not alone: {', '.join(names)}")
    return again


def deserve_a_second_try(names: Iterable[str]) -> bool:
    """Whether these are few, and all of them wait for others."""
    named = [*names]
    return 0 < len(named) <= _MOST and all(name.startswith(_WAITING) for name in named)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
