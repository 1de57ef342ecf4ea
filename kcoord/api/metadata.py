"""Metadata: the brokers and the topics."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.metadata import Metadata, RequestedTopic, metadata


def to_request(entity: Any) -> Metadata:
    """Converts kio's Metadata request of any version to the version-free one."""
    return Metadata(
        topics=_topics(entity),
        allows_ids=entity.__version__ >= 12,
        # Up to version 3 requesting a topic always creates it, if the server allows that.
        allow_auto_topic_creation=getattr(entity, "allow_auto_topic_creation", True),
        include_cluster_operations=getattr(entity, "include_cluster_authorized_operations", False),
        include_topic_operations=getattr(entity, "include_topic_authorized_operations", False),
    )


def _topics(entity: Any) -> tuple[RequestedTopic, ...] | None:
    if entity.topics is None or (entity.__version__ == 0 and not entity.topics):  # version 0 has no null
        return None
    return tuple(RequestedTopic(name=topic.name, topic_id=getattr(topic, "topic_id", None)) for topic in entity.topics)


API = broker_api(to_request=to_request, decide=metadata)
