"""The contract of each file of this folder: what it exports as `API`, so that dispatch can call it and mypy checks it.

`to_request` and `decide` must agree on the type of the request, and so must what prevalidates and repeats it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kcoord.api.caller import Caller
    from kcoord.broker.cluster import Cluster, RequestContext
    from kcoord.groups.coordinator import Coordinator
    from kcoord.groups.instant import Instant
    from kcoord.tickets import Ticket

Request = TypeVar("Request")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiModule:
    """The functions by which one API is served, and what the caches of server/fast_path need to know of it. None means
    that the API has no such function or field. Made by `broker_api` or `group_api`.
    """

    to_request: Callable[..., Any]  # kio's entity, and the caller for groups, to a request without a version
    decide: Callable[..., Any] | None  # None where dispatch calls a function that only this API has
    to_response: Callable[[Any, int], object] | None  # the reply for a version, where versions differ in shape
    per_member_field: str | None = None
    """The field of the response that differs between the members of a group; the others are encoded once for all."""
    prevalidate: Callable[..., Any] | None = None
    """Returns an object that decides repetitions of an accepted request without the checks that still hold."""
    variable_field: str | None = None
    """The field of the request that differs when a member repeats it, such as the offsets of a commit."""
    with_fields: Callable[[Any, Any], Any] | None = None
    """Returns the request with other values of the variable field."""


def broker_api(
    *,
    to_request: Callable[[Any], Request],
    decide: "Callable[[Cluster, Request, RequestContext], object] | None",
    to_response: Callable[[Any, int], object] | None = None,
) -> ApiModule:
    """Makes the ApiModule of an API that the broker decides, such as Fetch."""
    return ApiModule(to_request=to_request, decide=decide, to_response=to_response)


def group_api(
    *,
    to_request: "Callable[[Any, Caller], Request]",
    decide: "Callable[[Coordinator, Request, Ticket, Instant], object]",
    to_response: Callable[[Any, int], object] | None = None,
    per_member_field: str | None = None,
    prevalidate: "Callable[[Coordinator, Request, Any], object] | None" = None,
    variable_field: str | None = None,
    with_fields: Callable[[Request, Any], Request | None] | None = None,
) -> ApiModule:
    """Makes the ApiModule of an API that a group coordinator decides, such as JoinGroup."""
    return ApiModule(
        to_request=to_request,
        decide=decide,
        to_response=to_response,
        per_member_field=per_member_field,
        prevalidate=prevalidate,
        variable_field=variable_field,
        with_fields=with_fields,
    )
