"""DeleteTopics: by name, and from version 6 on also by id."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.topics import DeleteTopics, TopicToDelete, delete_topics


def to_request(entity: Any) -> DeleteTopics:
    """Converts kio's DeleteTopics request of any version to the version-free one."""
    if entity.__version__ < 6:
        return DeleteTopics(topics=tuple(TopicToDelete(name=name) for name in entity.topic_names))
    return DeleteTopics(
        topics=tuple(TopicToDelete(name=topic.name, topic_id=topic.topic_id) for topic in entity.topics)
    )


API = broker_api(to_request=to_request, decide=delete_topics)
