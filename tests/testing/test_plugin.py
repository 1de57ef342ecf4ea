import sys

from kcoord.testing.cluster import Cluster

from .conftest import RunPython

NOTHING_HERE = {"KCOORD_TEST_NO_KAFKA": "", "KCOORD_TEST_BOOTSTRAP": "", "PATH": "", "JAVA_HOME": ""}
USES_KAFKA = "def test_user(kafka_cluster, java_tools): pass"
SKIP_NOTICE = "KCOORD_TEST_NO_KAFKA=1: tests against the real Kafka are left out"


def test_tests_without_kafka_are_left_out_aloud(run_pytest: RunPython) -> None:
    answer = run_pytest(USES_KAFKA, {"KCOORD_TEST_NO_KAFKA": "1", "PATH": ""})
    assert answer.returncode == 0
    assert "1 skipped" in answer.stdout
    header, _, rest = answer.stdout.partition("collected 1 item")
    assert SKIP_NOTICE in header
    assert rest.count(SKIP_NOTICE) == 2, "once as the reason of the skip, once as the summary"


def test_a_missing_java_fails_the_tests(run_pytest: RunPython) -> None:
    answer = run_pytest(USES_KAFKA, NOTHING_HERE)
    assert answer.returncode == 1
    assert "1 error" in answer.stdout
    assert "apt install openjdk-17-jdk-headless" in answer.stdout
    assert "Traceback" not in answer.stdout


def test_a_cluster_that_is_there_needs_no_java(run_pytest: RunPython, kafka_cluster: Cluster) -> None:
    source = f"def test_user(kafka_cluster): assert kafka_cluster.bootstrap == {kafka_cluster.bootstrap!r}"
    answer = run_pytest(source, {**NOTHING_HERE, "KCOORD_TEST_BOOTSTRAP": kafka_cluster.bootstrap})
    assert answer.returncode == 0, answer.stdout


def test_the_end_of_the_log_is_in_the_report_of_a_failed_test(run_pytest: RunPython, kafka_cluster: Cluster) -> None:
    source = """
def test_user(kafka_cluster_factory):
    with kafka_cluster_factory() as cluster:
        assert cluster.bootstrap == "elsewhere"

def test_of_a_later_one(kafka_cluster_factory):
    raise AssertionError("no cluster was open")
"""
    answer = run_pytest(source, {"KCOORD_TEST_BOOTSTRAP": "", "KCOORD_TEST_KAFKA": "jars"})
    assert answer.returncode == 1
    assert answer.stdout.count("log of KafkaCluster 127.0.0.1:") == 1
    assert "node-1/kafka.log" in answer.stdout
    assert "INFO" in answer.stdout


def test_the_plugin_brings_nothing_heavy_into_every_test_run(run_python: RunPython) -> None:
    answer = run_python("-c", "import pytest, kcoord.testing.plugin, sys; print(*sys.modules)")
    loaded = set(answer.stdout.split())
    assert "kcoord.testing.plugin" in loaded
    assert not loaded & {"asyncio", "click", "confluent_kafka", "kio", "rich", "testcontainers"}


def test_the_plugin_is_there_without_being_asked_for() -> None:
    assert "kcoord.testing.plugin" in sys.modules
