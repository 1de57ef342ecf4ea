"""A folder of tables, as Parquet: `<folder>/<table>/date=2026-11-16/….parquet`.

The folder may be anywhere that Spark reaches: a path, or a URL such as hdfs://… or s3a://…. A path is checked without
Spark, before Spark is started. `scanned` is written last: a folder that has it is complete.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from kcoord.exceptions import InvalidInput
from kcoord.pipeline.schemas import SCANNED, TABLES, spark_schema

_DAY: Final = "date"
_URL: Final = re.compile(r"file:|[a-z][a-z0-9+.-]+://")
_GLOB_CHARACTERS: Final = re.compile(r"[\\*?\[\]{}]")
_LOG_TO_PARQUET: Final = 8  # bytes of log per byte of Parquet: columns of names and times compress well
CHECKPOINT: Final = "_checkpoint"
"""The folder next to the tables that stores how far a job that follows a cluster has come."""


class BadFolder(InvalidInput, ValueError):
    """Raised when a folder of tables cannot be read, or may not be written to."""


def check_writable(folder: Path, *, named: Path) -> None:
    """Checks that files can be made in the folder. Raises OSError, which names the path `named`."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(named)) from None


@dataclass(frozen=True, slots=True)
class TablesFolder:
    """The folder of the pipeline's tables, as Parquet: a local path, or a URL that only Spark reaches."""

    uri: str

    @property
    def path(self) -> Path | None:
        """The local path, or None if only Spark can reach the folder."""
        return None if _URL.match(self.uri) else Path(self.uri)

    @property
    def is_complete(self) -> bool:
        """Whether a job has written all decoded tables, as far as that is visible without Spark."""
        return self.path is None or (self.path / SCANNED).is_dir()

    @property
    def log_bytes(self) -> int | None:
        """How many bytes of log became these tables, estimated by their size; None if only Spark can reach the
        folder."""
        if self.path is None:
            return None
        return _LOG_TO_PARQUET * sum(each.stat().st_size for each in self.path.glob("*/**/*.parquet"))

    def check(self, *, replaces: bool = False) -> None:
        """Checks that tables may be written here, and makes the folder if it does not exist. `replaces` allows tables
        in it. Raises BadFolder, OSError."""
        if self.path is None:
            if replaces:
                raise BadFolder(f"{self.uri}: --overwrite is for folders of this machine; name another place")
            return
        if self.path.exists() and not self.path.is_dir():
            raise BadFolder(f"{self.uri} is a file: tables need a folder")
        if self.path.is_dir() and any(self.path.iterdir()):
            self._check_replaceable(self.path, replaces=replaces)
        self.path.mkdir(parents=True, exist_ok=True)
        check_writable(self.path, named=self.path)

    def prepare(self, *, replaces: bool = False) -> None:
        """Deletes the tables in the folder, if `replaces` allows it, before others are written. Raises BadFolder,
        OSError."""
        self.check(replaces=replaces)
        for each in self.path.iterdir() if self.path is not None else ():
            shutil.rmtree(each)

    def _check_replaceable(self, path: Path, *, replaces: bool) -> None:
        others = [each.name for each in path.iterdir() if each.name not in (*TABLES, CHECKPOINT)]
        if others:
            raise BadFolder(f"{self.uri} has other things in it ({others[0]}): name a new folder, or an empty one")
        if not replaces:
            raise BadFolder(f"{self.uri} has tables in it already: name another folder, or say --overwrite")

    @contextmanager
    def removed_if_unused(self) -> Iterator[None]:
        """Removes the folder if the `with` block fails, unless it existed before or has content."""
        was_there = self.path is None or self.path.exists()
        try:
            yield
        except BaseException:
            if self.path is not None and not was_there:
                with suppress(OSError):  # it has content, or was not made
                    self.path.rmdir()
            raise

    def check_complete(self) -> None:
        """Raises BadFolder if the decoded tables are incomplete or missing. The caller has found no log segments
        here."""
        if self.is_complete:
            return
        assert self.path is not None
        if not self.path.exists():
            raise BadFolder(f"{self.uri}: no such folder")
        if any((self.path / name).is_dir() for name in TABLES):
            raise BadFolder(f"{self.uri}: the job that wrote these tables did not end; run it again with --overwrite")
        raise BadFolder(
            f"{self.uri}: neither tables of kcoord pipeline decode in it, nor segments of a log: "
            "<topic>-<partition>/<20 digits>.log"
        )

    def read(self, spark: SparkSession, table: str) -> DataFrame:
        """Returns a table as a DataFrame."""
        pattern = _GLOB_CHARACTERS.sub(r"\\\g<0>", self.location(table))  # Spark expands glob characters in paths
        return spark.read.schema(spark_schema(table)).parquet(pattern).select(TABLES[table].schema.names)

    def write(self, frame: DataFrame, table: str, *, replaces: bool = False) -> None:
        """Writes a DataFrame as a whole table. `replaces` allows it to exist, as for a derived table."""
        writer = frame.select(TABLES[table].schema.names).write.mode("overwrite" if replaces else "errorifexists")
        writer = writer.option("partitionOverwriteMode", "static")
        writer = writer.partitionBy(_DAY) if TABLES[table].has_days else writer
        writer.parquet(self.location(table))
        if self.path is not None and not any((self.path / table).rglob("*.parquet")):
            # Without rows there is no day and so no file: other readers would find no columns.
            empty = frame.sparkSession.createDataFrame([], spark_schema(table))
            empty.write.mode("append").parquet(self.location(table))

    def location(self, name: str) -> str:
        """Returns the URL of a table for Spark; a local path becomes a `file:` URL, whatever Spark's default file
        system is."""
        if self.path is None:
            return f"{self.uri.rstrip('/')}/{name}"
        return f"file:{self.path.absolute() / name}"
