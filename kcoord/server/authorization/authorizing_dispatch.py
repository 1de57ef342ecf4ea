"""Dispatch with authorization rules: each request passes its API's guard before it is decided.

A guard removes from a request what its principal is not allowed to do, has the rest decided, and adds the denied parts
to the reply, as a Kafka broker with an authorizer does. The guards are in group_apis, record_apis and topic_apis, most
of them as data (item_guard). An API without a guard is not served, so adding an API includes the decision who may use
it.
"""

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kcoord.api.table import SERVED
from kcoord.broker.cluster import RequestContext
from kcoord.groups.instant import Instant
from kcoord.protocol.headers import RequestHeader
from kcoord.security.rules import Operation
from kcoord.server.authorization.permissions import Authorizer, Guard, Permissions
from kcoord.server.dispatch.dispatch import Dispatch, Outcome, outcome_of
from kcoord.server.dispatch.routes import Route
from kcoord.server.fast_path.client_session import ClientSession
from kcoord.tickets import Ticket

if TYPE_CHECKING:
    from kcoord.broker.fetching import Fetch


class AuthorizingDispatch(Dispatch):
    """A Dispatch that checks the authorization rules (ACLs) of each request's principal before it is decided."""

    def __init__(self, *args: Any, authorizer: Authorizer) -> None:
        super().__init__(*args)
        self._authorizer = authorizer

    def _coordinate(
        self, frame: bytes, route: Route, request: Any, client: ClientSession, ticket: Ticket, at: Instant
    ) -> Outcome:
        def decide(narrowed: Any) -> Any:
            return self._groups.decide(self._node.node_id, route.decide, narrowed, ticket, at)

        reply = _guard_of(route.api.key)(request, self._permissions(client), self._cluster, decide)
        return outcome_of(frame, route, reply, client, ticket)

    def _reply(self, api_key: int, request: Any, context: RequestContext, client: ClientSession) -> Any:
        decide = partial(self._decided, api_key, context, client)
        return _guard_of(api_key)(request, self._permissions(client), self._cluster, decide)

    def _fetch(
        self, header: RequestHeader, request: "Fetch", context: RequestContext, client: ClientSession, ticket: Ticket
    ) -> Outcome:
        """Passes the check on to the fetch: which topics it reads is known only within its session."""

        def may_read(topic: str) -> bool:
            return self._permissions(client).may_topic(Operation.READ, topic)

        return super()._fetch(header, replace(request, may_read=may_read), context, client, ticket)

    def _decided(self, api_key: int, context: RequestContext, client: ClientSession, request: Any) -> Any:
        return super()._reply(api_key, request, context, client)

    def _permissions(self, client: ClientSession) -> Permissions:
        return self._authorizer.permissions_of(client.principal, client.host)


@cache
def _guard_of(api_key: int) -> Guard:
    """Returns the guard of an API. Its module is imported on first use, as the API's file is."""
    if SERVED[api_key].is_group_api:
        from kcoord.server.authorization import group_apis

        return group_apis.GUARDS[api_key]
    from kcoord.server.authorization import record_apis, topic_apis

    return {**record_apis.GUARDS, **topic_apis.GUARDS}[api_key]
