"""One JVM with Kafka's assignors for all tests of a process."""

from collections.abc import Iterator

import pytest

from tests.assignors.java_assignors import JavaAssignors, java_assignors


@pytest.fixture(scope="session")
def java() -> Iterator[JavaAssignors]:
    with java_assignors() as assignors:
        yield assignors
