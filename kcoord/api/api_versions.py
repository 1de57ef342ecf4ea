"""ApiVersions: the served versions of all APIs, which clients request first (KIP-511)."""

import re
from dataclasses import dataclass
from typing import Any

from kcoord.api.contract import broker_api
from kcoord.api.table import SERVED, Api
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions:
    """An ApiVersions request without a version: the name and version of the client's software; None before
    version 3.
    """

    software_name: str | None
    software_version: str | None

    @property
    def is_valid(self) -> bool:
        """Whether name and version of the software have only characters that Kafka allows (KIP-511)."""
        named = (self.software_name, self.software_version)
        return all(name is None or _SOFTWARE.fullmatch(name) for name in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRange:
    """The announced versions of one API in the reply to ApiVersions."""

    api_key: int
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsReply:
    """The version-free reply to ApiVersions."""

    api_keys: tuple[ApiRange, ...]
    error_code: ErrorCode = ErrorCode.none
    throttle_time: float = 0.0
    supported_features: tuple[object, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[object, ...] = ()
    zk_migration_ready: bool = False


def to_request(entity: Any) -> ApiVersions:
    """Converts kio's ApiVersions request of any version to the version-free one."""
    return ApiVersions(
        software_name=getattr(entity, "client_software_name", None),
        software_version=getattr(entity, "client_software_version", None),
    )


def announce(request: ApiVersions) -> ApiVersionsReply:
    """Decides an ApiVersions request: the reply lists all served APIs and their versions."""
    if not request.is_valid:
        return ApiVersionsReply(api_keys=(), error_code=ErrorCode.invalid_request)
    return ApiVersionsReply(api_keys=tuple(map(_range, SERVED.values())))


def refuse_version() -> ApiVersionsReply:
    """Returns the reply to an ApiVersions request whose version is too new: UNSUPPORTED_VERSION with the versions of
    ApiVersions, to be encoded in version 0.
    """
    return ApiVersionsReply(api_keys=(_range(SERVED[ApiKey.API_VERSIONS]),), error_code=ErrorCode.unsupported_version)


def _range(api: Api) -> ApiRange:
    return ApiRange(api_key=api.key, min_version=api.announced_from, max_version=api.versions[-1])


API = broker_api(to_request=to_request, decide=None)
