from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.pipeline.histories import interpreted


@pytest.fixture(autouse=True, scope="package")
def _interpreted(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield
