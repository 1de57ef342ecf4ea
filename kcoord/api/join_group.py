"""JoinGroup: from version 4 on new members get an id first (KIP-394), from 5 on they may be static (KIP-345)."""

from typing import Any

from kcoord.api.caller import Caller
from kcoord.api.contract import group_api
from kcoord.groups.classic.member import Protocols
from kcoord.groups.classic.protocols import names
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.replies import JoinReply
from kcoord.groups.requests import Join

_PROTOCOLS = Join._fields.index("protocols")


def to_request(entity: Any, caller: Caller) -> Join:
    """Converts kio's JoinGroup request of any version to the version-free one."""
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


def with_fields(request: Join, subscriptions: tuple[bytes, ...]) -> Join | None:
    """Returns the JoinGroup request with other subscriptions, or None if it names a protocol twice, so that not all of
    them count.
    """
    if len(request.protocols) != len(subscriptions):
        return None
    protocols = tuple(zip(names(request.protocols), subscriptions, strict=True))
    return Join._make((*request[:_PROTOCOLS], protocols, *request[_PROTOCOLS + 1 :]))


def to_response(reply: JoinReply, version: int) -> JoinReply:
    """Adapts the reply to a version: replaces a null protocol name by an empty one before version 7, which
    has no null.
    """
    if version >= 7 or reply.protocol_name is not None:
        return reply
    return reply._replace(protocol_name="")


def _protocols(entity: Any) -> Protocols:
    """Returns the protocols of the request. Only the first one of each name counts: a member must not vote twice."""
    protocols: dict[str, bytes] = {}
    for protocol in entity.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    return tuple(protocols.items())


API = group_api(
    to_request=to_request,
    decide=Coordinator.join,
    prevalidate=Coordinator.prevalidate_join,
    variable_field="metadata",
    with_fields=with_fields,
    per_member_field="member_id",
    to_response=to_response,
)
