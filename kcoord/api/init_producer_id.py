"""InitProducerId: an id for an idempotent producer."""

from typing import Any, Final

from kcoord.broker.producing import InitProducerId

KEY: Final = 22
NAME: Final = "InitProducerId"
VERSIONS: Final = range(6)


def to_request(entity: Any) -> InitProducerId:
    return InitProducerId(
        transactional_id=entity.transactional_id,
        producer_id=getattr(entity, "producer_id", -1),
        producer_epoch=getattr(entity, "producer_epoch", -1),
    )
