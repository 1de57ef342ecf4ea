"""Numbers of partitions on the command line."""

from importlib import import_module
from typing import Any

import click
import pytest

module: Any = import_module("kcoord.commands.assign.topic_counts")  # by name: mypy sees the folder, commands/


def test_a_topic_and_its_count_have_a_mark_between_them() -> None:
    assert module.parse_topic_count("orders:12", ":") == ("orders", 12)
    assert module.parse_topic_count("a=b=3", "=") == ("a=b", 3)


@pytest.mark.parametrize("text", ["orders", "orders=", "=3", "orders=-1", "orders=1.5", "orders=٣"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC=PARTITIONS, such as orders=12"):
        module.parse_topic_count(text, "=")
