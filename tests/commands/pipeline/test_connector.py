"""Tests of `--connector spark-sql-kafka` where it is impossible: each command that reads a cluster reports one line."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from click.testing import CliRunner, Result

from kcoord.pipeline.sources.connector import JARS
from kcoord.testing.embedded import EmbeddedCluster
from tests.support.pipeline.live_logs import LogScene

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

cli: Any = import_module("kcoord.commands.main").cli  # by name: mypy sees the folder, commands/
line_of: Any = import_module("kcoord.commands.errors").line_of
CONNECTOR = ("--connector", "spark-sql-kafka")


def pipeline(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *arguments], prog_name="kcoord")


@pytest.mark.parametrize(
    "command",
    [
        ["decode", "--out", "tables"],
        ["decode", "--out", "tables", "--follow"],
        ["rebalances"],
        ["lag"],
        ["report", "--out", "report.html"],
    ],
    ids=" ".join,
)
def test_a_connection_that_java_cannot_make_is_told_before_anybody_is_asked(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unchecked = ["-X", "security.protocol=SSL", "-X", "enable.ssl.certificate.verification=false"]
    done = pipeline(*command, "-b", "127.0.0.1:1", *unchecked, *CONNECTOR)
    assert done.exit_code == 1
    assert done.exception is not None
    assert line_of(done.exception).startswith(
        "--connector spark-sql-kafka cannot connect without checking certificates (enable.ssl.certificate.verification="
    )
    assert list(tmp_path.iterdir()) == []


def test_a_spark_without_the_connector_is_told_what_to_add_and_tables_that_are_there_stay(
    spark: "SparkSession", tmp_path: Path
) -> None:
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    out = tmp_path / "tables"
    (out / "scanned").mkdir(parents=True)
    with EmbeddedCluster(topics={"orders": 3}) as cluster:
        LogScene(cluster.bootstrap).commit("g", "orders")
        for command in (["decode", "--out", str(out), "--overwrite"], ["rebalances"]):
            done = pipeline(*command, "-b", cluster.bootstrap, *CONNECTOR)
            assert done.exit_code == 1
            assert done.exception is not None
            line = line_of(done.exception)
            assert line.startswith(
                f"this Spark has no Kafka connector: add the jars {', '.join(JARS)} (--conf spark.jars"
            )
            assert f"(--conf spark.jars.packages={package}); or say --connector python" in line
    assert list(out.iterdir()) == [out / "scanned"]
