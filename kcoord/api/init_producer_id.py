"""InitProducerId: issues an id to an idempotent producer."""

from typing import Any

from kcoord.api.contract import broker_api
from kcoord.broker.producing import InitProducerId, init_producer_id


def to_request(entity: Any) -> InitProducerId:
    """Converts kio's InitProducerId request of any version to the version-free one."""
    return InitProducerId(
        transactional_id=entity.transactional_id,
        producer_id=getattr(entity, "producer_id", -1),
        producer_epoch=getattr(entity, "producer_epoch", -1),
    )


def transactional_ids(request: InitProducerId) -> tuple[str, ...]:
    """Returns the transactional id of the request; empty if it has none."""
    return (request.transactional_id,) if request.transactional_id else ()


API = broker_api(to_request=to_request, decide=init_producer_id)
