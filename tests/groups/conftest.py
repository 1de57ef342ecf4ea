import pytest

from tests.support.groups.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """A coordinator without an initial delay."""
    return Scene()
