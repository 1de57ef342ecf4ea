import json
from zipfile import ZipFile

import pytest

from kcoord.testing.cluster import Cluster
from kcoord.testing.errors import TimedOutError
from kcoord.testing.jars import resolve
from kcoord.testing.tools import SHORT_NAMES, JavaTools, main_class


def test_a_tool_is_known_by_its_class(kafka_cluster: Cluster, java_tools: JavaTools) -> None:
    answer = java_tools.run(
        "org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", kafka_cluster.bootstrap
    )
    assert answer.exit_code == 0
    assert "JoinGroup(11): 0 to 9" in answer.stdout
    assert answer.stderr == ""


def test_all_short_names_stand_for_classes_that_are_there(java_tools: JavaTools) -> None:
    wanted = {f"{name.replace('.', '/')}.class" for name in SHORT_NAMES.values()}
    found: set[str] = set()
    for jar in resolve().joinpath("libs").glob("kafka*.jar"):
        with ZipFile(jar) as archive:
            found.update(archive.namelist())
    assert wanted <= found


def test_an_unknown_short_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no tool 'topic': .* topics"):
        main_class("topic")


def test_a_tool_reads_its_input_and_another_runs_until_it_is_stopped(
    kafka_cluster: Cluster, java_tools: JavaTools
) -> None:
    where = ("--bootstrap-server", kafka_cluster.bootstrap, "--topic", "spoken")
    java_tools.run("topics", *where, "--create")
    with java_tools.start("verifiable-consumer", *where, "--group-id", "listeners", "--verbose") as consumer:
        consumer.wait_for("partitions_assigned", timeout=60)
        produced = java_tools.run("console-producer", *where, input="hello\n")
        assert produced.exit_code == 0, produced
        line = consumer.wait_for('"record_data"', timeout=60)
        assert json.loads(line)["value"] == "hello"
        groups = java_tools.run("consumer-groups", "--bootstrap-server", kafka_cluster.bootstrap, "--list")
        assert "listeners" in groups.stdout
    assert consumer.exit_code is not None


def test_a_tool_that_takes_too_long_is_stopped_and_named(kafka_cluster: Cluster, java_tools: JavaTools) -> None:
    with pytest.raises(TimedOutError, match="console-consumer has not ended within 2 s"):
        java_tools.run(
            "console-consumer", "--bootstrap-server", kafka_cluster.bootstrap, "--topic", "silent", timeout=2
        )


def test_the_failure_of_a_tool_is_an_answer(java_tools: JavaTools) -> None:
    answer = java_tools.run("topics", "--no-such-option")
    assert answer.exit_code == 1
    assert "no-such-option" in answer.stderr + answer.stdout
