"""A data source whose reader fails in a chosen way. It is in a separate file, so that workers can import it."""

import os
import signal
from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class FailingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kcoord_failing"

    def schema(self) -> str:
        return "number int"

    def reader(self, schema: StructType) -> "FailingReader":
        return FailingReader(self.options["how"])


class FailingReader(DataSourceReader):
    def __init__(self, how: str) -> None:
        self._how = how

    def partitions(self) -> list[InputPartition]:
        if self._how == "planning":
            raise ValueError("nothing to read there:\nnot a folder")
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        match self._how:
            case "forbidden":
                raise PermissionError(13, "Permission denied", "/logs/00000000000000000000.log")
            case "gone":
                raise FileNotFoundError(2, "No such file or directory", "/logs/00000000000000000000.log")
            case "packages":
                import a_package_that_is_not_there  # type: ignore[import-not-found] # noqa: F401
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
        yield (1,)
