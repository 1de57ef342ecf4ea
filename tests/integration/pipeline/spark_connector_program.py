"""Runs commands of kcoord in one Spark with more jars than the tests' own: it reads and answers lines of JSON."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from kcoord.pipeline.session import SparkConfig, open_session
from kcoord.testing.jvm.java import QUICK_FLAGS

cli: Any = import_module("kcoord.commands.main").cli
line_of: Any = import_module("kcoord.commands.errors").line_of

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",  # tests read it
    "spark.driver.extraJavaOptions": " ".join(QUICK_FLAGS[2:]),  # it runs for a few seconds only
}


def main(folder: str, settings: str) -> None:
    of_folder = {"spark.eventLog.dir": Path(folder).as_uri(), "spark.local.dir": folder}
    with open_session(SparkConfig(master="local[1]", settings=SETTINGS | of_folder | json.loads(settings))):
        for line in sys.stdin:
            print(
                json.dumps(result_document(CliRunner().invoke(cli, json.loads(line), prog_name="kcoord"))), flush=True
            )


def result_document(done: Result) -> dict[str, object]:
    is_ended = done.exception is None or isinstance(done.exception, SystemExit)
    error = "" if is_ended else line_of(done.exception)
    return {"exit_code": done.exit_code, "stdout": done.stdout, "stderr": done.stderr, "error": error}


if __name__ == "__main__":
    main(*sys.argv[1:])
