"""Rows of several tables in one frame: a column for each table, of which one is there and the others are null.

A data source gives rows of one schema. What comes out of one look at a log is rows of several tables; so that it need
not be looked at once for each of them, they come side by side and are taken apart again behind the border.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.types import StructField, StructType

from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.schemas import TABLES, spark_schema


def wide_schema(tables: Sequence[str]) -> StructType:
    return StructType([StructField(name, spark_schema(name)) for name in tables])


def widened(rows: Rows, tables: Sequence[str]) -> pa.RecordBatch:
    """Rows of one of the tables."""
    found, batch = rows
    kinds = {name: pa.struct(list(TABLES[name].schema)) for name in tables}
    columns = [
        pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        if name == found
        else pa.nulls(len(batch), kind)
        for name, kind in kinds.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(tables))


def narrowed(frame: DataFrame, table: str) -> DataFrame:
    """The rows of one table of a wide frame."""
    return frame.where(col(table).isNotNull()).select(f"{table}.*")
