"""JoinGroup: from 4 on new members are given an id first (KIP-394), from 5 on they may be static (KIP-345)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.groups.classic.member import Protocols
from kcoord.groups.classic.protocols import names
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import JoinReply
from kcoord.groups.requests import Join

decide = Coordinator.join
stand = Coordinator.stand_join
VARYING = "metadata"  # the field that is new each time, where a member asks the same again
_PROTOCOLS = Join._fields.index("protocols")
OWN_FIELD = "member_id"  # in which the answers to the members of a group differ


def to_request(entity: Any, caller: Caller) -> Join:
    version = entity.__version__
    session_timeout = entity.session_timeout.total_seconds()
    return Join(
        group_id=entity.group_id,
        member_id=entity.member_id,
        instance_id=entity.group_instance_id if version >= 5 else None,
        client_id=caller.client_id,
        client_host=caller.host,
        session_timeout=session_timeout,
        rebalance_timeout=entity.rebalance_timeout.total_seconds() if version >= 1 else session_timeout,
        protocol_type=entity.protocol_type,
        protocols=_protocols(entity),
        reason=entity.reason if version >= 8 else None,
        needs_known_id=version >= 4,
        can_skip_assignment=version >= 9,
        principal=caller.principal,
    )


def with_varying(request: Join, subscriptions: tuple[bytes, ...]) -> Join | None:
    """The same join again but for its subscriptions; None if that cannot be told, since some count and others not."""
    if len(request.protocols) != len(subscriptions):
        return None
    protocols = tuple(zip(names(request.protocols), subscriptions, strict=True))
    return Join._make((*request[:_PROTOCOLS], protocols, *request[_PROTOCOLS + 1 :]))


def to_response(reply: JoinReply, version: int) -> JoinReply:
    """Before version 7 there is no null for a protocol."""
    if version >= 7 or reply.protocol_name is not None:
        return reply
    return reply._replace(protocol_name="")


def _protocols(entity: Any) -> Protocols:
    """Of a name that is there twice the first counts: a second vote must not count for a second member."""
    protocols: dict[str, bytes] = {}
    for protocol in entity.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    return tuple(protocols.items())
