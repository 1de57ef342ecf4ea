"""The folder of a job that follows a cluster: checks whether it may be used, and locks it against other jobs.

| the folder has                               | then                                                                |
|----------------------------------------------|---------------------------------------------------------------------|
| nothing, or no rows yet                      | the job begins                                                      |
| a checkpoint, and in the tables only batch=* | the job goes on                                                     |
| batch=*, and no checkpoint                   | refused: nobody knows how far the tables go                         |
| anything else in a table                     | refused: no reader could make one table of both                     |
| another job that writes there                | refused; that is certain for a path, and cannot be known for a URL  |

A path is checked without Spark, before Spark is started; a URL is checked by Spark, which reaches more than paths.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from kcoord.pipeline.decoding.row_filter import RowSelection
from kcoord.pipeline.schemas import TABLES, spark_schema
from kcoord.pipeline.sources.live_plan import TopicSelection
from kcoord.pipeline.sources.request_fingerprint import check_fingerprint, fingerprint
from kcoord.pipeline.tables import CHECKPOINT, BadFolder, TablesFolder, check_writable

DECODED: Final = tuple(name for name, table in TABLES.items() if table.is_decoded)
_BATCH: Final = "batch="
_METADATA: Final = "metadata"
"""The first file that Spark writes into a checkpoint."""
_OFFSETS: Final = "offsets"
"""The folder with one file per micro-batch; the last line of a file is a `live_stream.StreamOffset`."""
_LOCK: Final = "lock"
_EMPTY_PARTITION: Final = "date=1970-01-01"


def check_path(out: TablesFolder) -> None:
    """Checks the local folder that `--follow` is to write tables to, as far as possible before the job runs; a URL is
    not checked. Raises BadFolder, OSError."""
    if out.path is None:
        return
    if out.path.exists() and not out.path.is_dir():
        raise BadFolder(f"{out.uri} is a file: tables need a folder")
    if out.path.is_dir():
        _check_content(out, out.path)
    out.path.mkdir(parents=True, exist_ok=True)
    check_writable(out.path, named=out.path)


@contextmanager
def locked(out: TablesFolder) -> Iterator[None]:
    """Locks the local folder while the `with` block runs, so that no other job follows into it; a URL is not locked.
    Raises BadFolder, OSError.

    The lock is the kernel's: it ends with the process, however that ends.
    """
    if out.path is None:
        yield
        return
    checkpoint = out.path / CHECKPOINT
    checkpoint.mkdir(parents=True, exist_ok=True)
    with (checkpoint / _LOCK).open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadFolder(_in_use_message(out)) from None
        if not os.fstat(lock.fileno()).st_nlink:  # its owner has deleted the file, and another job may have made one
            raise BadFolder(_in_use_message(out))
        try:
            yield
        finally:
            if not (checkpoint / _METADATA).exists():  # the job did not begin: leave no trace
                (checkpoint / _LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    checkpoint.rmdir()


def check_unlocked(out: TablesFolder) -> None:
    """Checks that no job with `--follow` writes to this local folder now. Raises BadFolder, OSError."""
    if out.path is not None and (out.path / CHECKPOINT / _LOCK).exists():
        with locked(out):
            pass


def check_request_unchanged(out: TablesFolder, wanted: RowSelection, choice: TopicSelection) -> None:
    """Checks that the tables in this local folder were begun by a job with the same options. Raises RequestChanged.

    What cannot be read here is left to the stream, which compares its request with the checkpoint too.
    """
    if out.path is None:
        return
    with suppress(OSError, LookupError, TypeError, json.JSONDecodeError, UnicodeDecodeError):
        offsets = [each for each in (out.path / CHECKPOINT / _OFFSETS).iterdir() if each.name.isdecimal()]
        newest = max(offsets, key=lambda each: int(each.name), default=None)
        if newest is not None:
            reached = json.loads(newest.read_text().splitlines()[-1])
            check_fingerprint(reached["asked"], fingerprint(wanted, choice))


def clear(out: TablesFolder) -> None:
    """Deletes everything in the local folder except our lock, for tables that are begun anew. Raises OSError."""
    assert out.path is not None, "a path, as check says"
    for each in [*out.path.iterdir(), *(out.path / CHECKPOINT).iterdir()]:
        if each.is_dir() and each.name != CHECKPOINT:
            shutil.rmtree(each)
        elif each.is_file() and each.name != _LOCK:
            each.unlink()


def prepare(spark: SparkSession, out: TablesFolder) -> None:
    """Makes the folder and its empty tables before a stream begins to write to it; tables with rows need a checkpoint.
    Raises BadFolder, OSError."""
    check_path(out)
    if out.path is not None:
        for table in DECODED:  # so that a table without rows can be read too
            (out.path / table).mkdir(exist_ok=True)
    elif not _has_checkpoint(spark, out):
        _check_no_rows(spark, out)
        for table in DECODED:
            overwrite_with_empty(spark, out, table, batch=0)


def overwrite_batch(frame: DataFrame, out: TablesFolder, table: str, *, batch: int) -> None:
    """Writes the rows of one micro-batch to a table, below `batch=<number>`, and replaces what this micro-batch has
    written before."""
    writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "static")
    if "date" in TABLES[table].schema.names:
        writer = writer.partitionBy("date")
    writer.parquet(f"{out.location(table)}/{_BATCH}{batch}")


def overwrite_with_empty(spark: SparkSession, out: TablesFolder, table: str, *, batch: int) -> None:
    """Writes a Parquet file without rows, which has only the columns, for a micro-batch that has no rows of a table."""
    empty = spark.createDataFrame([], spark_schema(table))
    overwrite_batch(empty, out, table, batch=batch)
    if "date" in empty.columns:  # without a day Spark writes no file; all files have to be at the same depth
        empty.drop("date").write.mode("append").parquet(f"{out.location(table)}/{_BATCH}{batch}/{_EMPTY_PARTITION}")


def _check_content(out: TablesFolder, path: Path) -> None:
    has_checkpoint = (path / CHECKPOINT / _METADATA).is_file()
    others = sorted(each.name for each in path.iterdir() if each.name not in (*TABLES, CHECKPOINT))
    if others and not has_checkpoint:  # once a job has begun, users may add files of their own
        raise BadFolder(f"{out.uri} has other things in it ({others[0]}): name a new folder, or an empty one")
    tables = [path / table for table in DECODED if (path / table).is_dir()]
    content = [each for table in tables for each in sorted(table.iterdir()) if not each.name.startswith(".")]
    for each in content:
        if not each.name.startswith(_BATCH):
            raise BadFolder(_foreign_tables_message(out, str(each.relative_to(path))))
    if content and not has_checkpoint:
        raise BadFolder(_lost_checkpoint_message(out))


def _check_no_rows(spark: SparkSession, out: TablesFolder) -> None:
    for table in DECODED:
        files = _files_with_rows(spark, out, table)
        if any(f"/{table}/{_BATCH}" not in file for file in files):
            raise BadFolder(_foreign_tables_message(out, table))
        if files:
            raise BadFolder(_lost_checkpoint_message(out))


def _files_with_rows(spark: SparkSession, out: TablesFolder, table: str) -> list[str]:
    """Returns the files of a table, or none if it has no row."""
    try:
        frame = out.read(spark, table)
        return [] if frame.isEmpty() else frame.inputFiles()
    except AnalysisException as error:
        _exists_despite(error)
        return []


def _has_checkpoint(spark: SparkSession, out: TablesFolder) -> bool:
    try:
        spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(out.location(CHECKPOINT))
    except AnalysisException as error:
        return _exists_despite(error)
    return True


def _in_use_message(out: TablesFolder) -> str:
    return f"{out.uri}: another --follow writes there: stop it, or name another folder"


def _foreign_tables_message(out: TablesFolder, what: str) -> str:
    return f"{out.uri} has tables in it that were not made by --follow ({what}): {_other_folder_hint(out)}"


def _lost_checkpoint_message(out: TablesFolder) -> str:
    return (
        f"{out.uri} has tables of --follow, but their checkpoint ({CHECKPOINT}) is missing, which tells how far it"
        f" came: put it back; if it is lost, {_other_folder_hint(out)}"
    )


def _other_folder_hint(out: TablesFolder) -> str:
    return "name another folder" if out.path is None else "name another folder, or say --overwrite"


def _exists_despite(error: AnalysisException) -> bool:
    """Returns False if the error says that the path does not exist; raises every other error again."""
    if error.getCondition() == "PATH_NOT_FOUND":
        return False
    raise error
