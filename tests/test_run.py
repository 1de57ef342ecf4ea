"""What `make test` runs a second time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.run import deserve_a_second_try

ROOT = Path(__file__).parents[1]
FAILS_ONCE = """
from pathlib import Path

def test_it():
    seen = Path(__file__).with_name("seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there
"""


@pytest.mark.parametrize(
    ("names", "deserved"),
    [
        ([], False),
        (["tests/integration/test_a.py::test_b"], True),
        (["tests/integration/test_a.py::test_b", "tests/commands/test_c.py::test_d[e]"], True),
        (["tests/integration/test_a.py::test_b", "tests/groups/test_c.py::test_d"], False),
        (["tests/durability/test_kill.py::test_a"], False),
        ([f"tests/integration/test_a.py::test_{number}" for number in range(4)], False),
    ],
)
def test_only_few_failures_of_tests_that_wait_get_a_second_try(names: list[str], deserved: bool) -> None:
    assert deserve_a_second_try(names) is deserved


@pytest.mark.parametrize(("folder", "code"), [("integration", 0), ("groups", 1)])
def test_what_fails_once_is_named_and_fails_for_good_where_nothing_waits(
    folder: str, code: int, tmp_path: Path
) -> None:
    run = run_of(folder, FAILS_ONCE, tmp_path)
    assert run.returncode == code
    assert ("failed once, and not alone: tests/" in run.stdout) == (code == 0)


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    run = run_of("integration", "def test_it(): assert False", tmp_path)
    assert run.returncode == 1
    assert "once more, alone: tests/integration/test_a.py::test_it" in run.stdout


def run_of(folder: str, content: str, tmp_path: Path) -> "subprocess.CompletedProcess[str]":
    file = tmp_path / "tests" / folder / "test_a.py"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    program = f"import sys; sys.path.append({str(ROOT)!r}); from tests.run import main; sys.exit(main(['-q', 'tests']))"
    return subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
