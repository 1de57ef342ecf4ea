"""The tables as they are documented, and as Spark sees them."""

from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from kcoord.pipeline.__main__ import tables_page
from kcoord.pipeline.schemas import SOURCE, TABLES, meaning_of, spark_schema

PAGE = Path(__file__).parent.parent.parent / "docs" / "tables.md"


def test_the_page_of_the_tables_is_what_the_schemas_say() -> None:
    assert PAGE.read_text() == tables_page(), "run make docs"


@pytest.mark.parametrize("name", TABLES)
def test_every_column_says_what_it_means(name: str) -> None:
    assert TABLES[name].name == name
    assert all(meaning_of(column) for column in TABLES[name].schema)


@pytest.mark.parametrize("name", TABLES)
def test_spark_has_the_same_columns(name: str) -> None:
    """Converts the schemas to Spark and back to Arrow; only the names of list elements may differ."""
    ours, theirs = TABLES[name].schema, spark_schema(name)
    assert theirs.names == ours.names
    assert [field.nullable for field in theirs] == [field.nullable for field in ours]
    assert [field.metadata["comment"] for field in theirs] == [meaning_of(field) for field in ours]
    again = to_arrow_schema(theirs, timezone="UTC")
    assert [field.type for field in again] == [field.type for field in ours]


@pytest.mark.parametrize("name", ["commits", "generations", "group_events", "rejected"])
def test_every_decoded_row_says_where_it_comes_from(name: str) -> None:
    assert tuple(TABLES[name].schema)[-len(SOURCE) :] == SOURCE
