"""The line that is reported for a failed job. Texts are Spark's own; errors that are cheap to provoke are provoked."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kcoord.pipeline.errors import JobFailed, is_from_spark, summarize_error, summarize_text, translate_errors
from tests.pipeline.failing_source import FailingSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUT_OF_MEMORY = """An error occurred while calling o368.collectToPython.
: java.lang.OutOfMemoryError: Java heap space
	at java.base/java.util.Arrays.copyOf(Arrays.java:3537)
"""
DISK_FULL = """An error occurred while calling o346.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/tables/commits. SQLSTATE: 58030
	at org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:858)
Caused by: org.apache.parquet.util.AutoCloseables$ParquetCloseResourceException: Unable to close resource
	at org.apache.parquet.util.AutoCloseables.uncheckedClose(AutoCloseables.java:85)
	... 1 more
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
	... 29 more
Caused by: java.io.IOException: No space left on device
	... 41 more
"""  # noqa: E501
NO_S3 = """An error occurred while calling o299.parquet.
: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found
	at org.apache.hadoop.conf.Configuration.getClass(Configuration.java:2787)
Caused by: java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found
	... 25 more
"""
NO_NAME_NODE = """An error occurred while calling o316.parquet.
: java.net.ConnectException: Call From vm/127.0.0.1 to name:8020 failed on connection exception: java.net.ConnectException: Connection refused; For more details see:  http://wiki.apache.org/hadoop/ConnectionRefused
	at java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)
Caused by: java.net.ConnectException: Connection refused
	... 20 more
"""  # noqa: E501
OTHER_TYPE = """An error occurred while calling o336.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Encountered error while reading file file:///tables/commits/part-0.snappy.parquet. Data type mismatches when reading Parquet column [offset]. Expected Spark type string, actual Parquet type INT64. SQLSTATE: KD001
Caused by: org.apache.spark.sql.execution.datasources.SchemaColumnConvertNotSupportedException: column: [offset], physicalType: INT64, logicalType: string
	... 1 more
"""  # noqa: E501
STREAM = """[STREAM_FAILED] Query [id = 5e2, runId = 0b1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/lib/kcoord/pipeline/sources/live_asked.py", line 34, in check_asked
    raise AskedOtherwise(
kcoord.pipeline.sources.request_fingerprint.AskedOtherwise: the tables were begun without --group, and this is with --group g
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 5e2, runId = 0b1]
Current Committed Offsets: {PythonMicroBatchStream: {"cluster": "x"}}
Unparsed Logical Plan:
WriteToMicroBatchDataSourceV1 ForeachBatchSink
"""  # noqa: E501
UNKNOWN = """An error occurred while calling o211.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most recent failure: Lost task 0.0 in stage 6.0 (TID 6) (127.0.0.1 executor driver): java.lang.IllegalStateException: what nobody foresaw
	at org.apache.spark.executor.Executor$TaskRunner.run(Executor.scala:906)

Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:4568)
Caused by: java.lang.IllegalStateException: what nobody foresaw
	... 1 more
Caused by: java.io.EOFException
	... 33 more
"""  # noqa: E501
NO_CLIENTS = """An error occurred while calling o41.load.
: java.lang.NoClassDefFoundError: org/apache/kafka/common/serialization/ByteArraySerializer
	at org.apache.spark.sql.kafka010.KafkaSourceProvider$.<clinit>(KafkaSourceProvider.scala:617)
Caused by: java.lang.ClassNotFoundException: org.apache.kafka.common.serialization.ByteArraySerializer
	... 32 more
"""
DELETED = """[STREAM_FAILED] Query [id = 5e2, runId = 0b1] terminated with exception: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in Kafka any more; set the source option failOnDataLoss to false.
"""  # noqa: E501
OUT_OF_RANGE = """An error occurred while calling o95.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times (TID 1)
Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position FetchPosition{offset=5} is out of range for partition __consumer_offsets-0
	... 1 more
"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (OUT_OF_MEMORY, r"Spark has no memory left \(Java heap space\); give it more: --conf spark\.driver\.memory"),
        (DISK_FULL, r"no space is left on a disk: that of --out, or"),
        (NO_S3, r"this Spark knows no s3a://: give it the package"),
        (NO_NAME_NODE, r"name:8020: Connection refused$"),
        (OTHER_TYPE, r"/tables/commits/part-0\.snappy\.parquet: the column offset is of another type"),
        (
            NO_CLIENTS,
            r"Spark's Kafka connector lacks a jar, the one with org\.apache\.kafka\..*ByteArraySerializer: docs/",
        ),
        (
            ": java.lang.ClassNotFoundException: org.apache.spark.internal.LogKeys$TOPIC$",
            r"a jar was made for another version of Spark than 4\.\d+\.\d+, which has no org\.apache\.spark\.internal",
        ),
        (OUT_OF_RANGE, r"the cluster has no longer all records that were to be read; --connector python would tell"),
        (DELETED, r"the cluster has no longer all records that were to be read; --connector python would tell"),
        ("java.net.UnknownHostException: name.invalid", r"name\.invalid: no such host$"),
        (STREAM, r"the tables were begun without --group, and this is with --group g$"),
        (UNKNOWN, r"what nobody foresaw$"),
        ("[SOME_CONDITION.OF_IT] It is so.\nAnd so on. SQLSTATE: 42000", r"It is so\.$"),
    ],
)
def test_of_pages_one_line_is_said(text: str, line: str) -> None:
    import re

    assert re.match(line, summarize_text(text)), summarize_text(text)
    assert "\n" not in summarize_text(text)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("forbidden", "/logs/00000000000000000000.log: Permission denied"),
        ("gone", "/logs/00000000000000000000.log: No such file or directory; on a cluster each worker must see it"),
        (
            "packages",
            "a worker's Python has no module named 'a_package_that_is_not_there': the workers need",
        ),
        ("killed", "a worker's Python was ended from outside"),
        ("planning", "nothing to read there: not a folder"),
    ],
)
def test_what_happened_to_a_worker_is_said(spark: "SparkSession", how: str, line: str) -> None:
    spark.dataSource.register(FailingSource)
    with pytest.raises(JobFailed) as failed, translate_errors():
        spark.read.format("kcoord_failing").option("how", how).load().collect()
    assert str(failed.value).startswith(line)


def test_what_is_wrong_with_a_folder_that_is_read_is_said(spark: "SparkSession", tmp_path: Path) -> None:
    cut = tmp_path / "cut" / "part-0.parquet"
    cut.parent.mkdir()
    cut.write_bytes(b"no Parquet at all")
    read = spark.read.schema("id long").parquet

    with pytest.raises(JobFailed) as failed, translate_errors():
        read(str(tmp_path / "none")).collect()
    assert str(failed.value) == f"{tmp_path}/none: no such file or folder"

    with pytest.raises(JobFailed) as failed, translate_errors():
        read(str(cut.parent)).collect()
    assert str(failed.value) == f"{cut} is not a Parquet file, or not a whole one"


def test_what_is_wrong_with_a_folder_that_is_written_is_said(spark: "SparkSession", tmp_path: Path) -> None:
    def failure_of(folder: str) -> str:
        with pytest.raises(JobFailed) as failed, translate_errors():
            spark.range(1).write.parquet(folder)
        return str(failed.value)

    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    assert failure_of(f"{tmp_path}/there") == f"{tmp_path}/there is there: name another folder, or say --overwrite"
    assert failure_of(f"{tmp_path}/file/tables") == f"{tmp_path}/file: not a folder"
    assert failure_of("/proc/tables").startswith("/proc/tables: cannot be written")


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o48.parquet: Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),
    ],
)
def test_a_jvm_that_is_gone_is_told_in_other_words_than_those_of_a_socket(error: Exception) -> None:
    assert summarize_error(error).startswith("Spark is gone: its JVM has ended")


def test_errors_of_others_stay_as_they_are() -> None:
    with pytest.raises(ConnectionRefusedError), translate_errors():
        raise ConnectionRefusedError(111, "Connection refused")
    assert not is_from_spark(FileNotFoundError("tables"))


def test_a_connection_that_py4j_could_not_make_is_sparks() -> None:
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

    java = ClientServer(JavaParameters(port=1), PythonParameters(port=0, daemonize=True))
    with pytest.raises(JobFailed, match="Spark is gone"), translate_errors():
        java.jvm.java.lang.System.currentTimeMillis()
    java.shutdown_callback_server()
