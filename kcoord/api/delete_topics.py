"""DeleteTopics: by name, and from version 6 on also by id."""

from typing import Any

from kcoord.broker.topics import DeleteTopics, TopicToDelete
from kcoord.broker.topics import delete_topics as decide

__all__ = ["decide", "to_request"]


def to_request(entity: Any) -> DeleteTopics:
    if entity.__version__ < 6:
        return DeleteTopics(topics=tuple(TopicToDelete(name=name) for name in entity.topic_names))
    return DeleteTopics(
        topics=tuple(TopicToDelete(name=topic.name, topic_id=topic.topic_id) for topic in entity.topics)
    )
