"""Rows of several tables in one frame: a struct column for each table, of which one is set and the others are null.

A data source gives rows of one schema, but one pass over a log yields rows of several tables. So that the log need not
be read once for each of them, they come as one union frame, which Spark splits into the tables.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import col
from pyspark.sql.types import StructField, StructType

from kcoord.pipeline.decoding.decode import Rows
from kcoord.pipeline.schemas import TABLES, spark_schema


def union_schema(tables: Sequence[str]) -> StructType:
    """Returns the schema of the union frame of these tables: a struct column for each table, of which one is set in
    each row."""
    return StructType([StructField(name, spark_schema(name)) for name in tables])


def to_union_rows(rows: Rows, tables: Sequence[str]) -> pa.RecordBatch:
    """Converts rows of one table to rows of the union frame of several: the struct column of their table is set, the
    others are null."""
    found, batch = rows
    kinds = {name: pa.struct(list(TABLES[name].schema)) for name in tables}
    columns = [
        pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        if name == found
        else pa.nulls(len(batch), kind)
        for name, kind in kinds.items()
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(tables))


def select_table(frame: DataFrame, table: str) -> DataFrame:
    """Returns the rows of one table from a union frame of several, with the table's own columns."""
    return frame.where(col(table).isNotNull()).select(f"{table}.*")
