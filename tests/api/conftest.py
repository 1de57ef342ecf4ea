import pytest

from tests.support.conversation import Conversation
from tests.support.groups.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """A coordinator without an initial delay."""
    return Scene()


@pytest.fixture
def conversation(scene: Scene) -> Conversation:
    """A conversation with the coordinator of the scene."""
    return Conversation(scene)
