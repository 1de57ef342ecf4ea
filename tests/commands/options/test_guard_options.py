"""Tests of invalid guards of `kcoord proxy`, which are refused before it connects to anything."""

from importlib import import_module
from typing import Any

import pytest
from click.testing import CliRunner

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--deny", "Jion"], "--deny: 'Jion': 'Jion' is neither an API of Kafka's nor one of produce, consume"),
        (["--allow", "groups:("], "--allow: 'groups:(': not a regular expression"),
        (["--deny", "Metadata"], "Metadata cannot be refused, as clients would see no cluster"),
        (["--max-group-size", "many"], "--max-group-size: 'many' begins with no number above 0: write 100"),
        (["--max-rebalances", "10"], "--max-rebalances: '10' is not a rate: write 10/5m"),
        (["--max-rebalances", "10/soon"], "write 30s, 5m, 1h30m"),
    ],
)
def test_a_guard_that_cannot_be_kept_is_a_usage_error(options: list[str], why: str) -> None:
    result = CliRunner().invoke(cli, ["proxy", "--upstream", "127.0.0.1:1", *options])
    assert result.exit_code == 2
    assert why in " ".join(result.output.split())
