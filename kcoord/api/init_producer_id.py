"""InitProducerId: issues an id to an idempotent producer."""

from typing import Any

from kcoord.broker.producing import InitProducerId
from kcoord.broker.producing import init_producer_id as decide

__all__ = ["decide", "to_request", "transactional_ids"]


def to_request(entity: Any) -> InitProducerId:
    return InitProducerId(
        transactional_id=entity.transactional_id,
        producer_id=getattr(entity, "producer_id", -1),
        producer_epoch=getattr(entity, "producer_epoch", -1),
    )


def transactional_ids(request: InitProducerId) -> tuple[str, ...]:
    """Returns the transactional id of the request, if it has one."""
    return (request.transactional_id,) if request.transactional_id else ()
