"""The interceptor that lets the proxy itself coordinate groups, and the lifecycle of the coordinator behind it.

    async with LocalCoordination(setup) as coordination:      # an Interceptor of the proxy
        coordination.coordinator_endpoint = ...               # the endpoint at which clients find the coordinator

| request                                 | what is done with it                                                     |
|-----------------------------------------|--------------------------------------------------------------------------|
| of a group                              | handled: handed to the coordinator once earlier requests have answers    |
| ListGroups, to another broker           | answered: that broker has no groups                                      |
| FindCoordinator                         | answered for groups; forwarded for transactions and share groups         |
| of KIP-848, share and streams groups,   | not served: ApiVersions does not announce these APIs, and the proxy      |
| or offsets in a transaction             | hangs up on clients that use them                                        |
| Metadata                                | forwarded, and the answer observed: the coordinator needs to know topics |
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from kcoord.admin.cluster_client import Refused
from kcoord.admin.connecting.connection import Connection
from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from kcoord.protocol.codec import decode_request, decode_response
from kcoord.protocol.frames import CorruptMessage
from kcoord.proxy.forwarding.interceptors import PASS, Answer, ClientInfo, Decision, Handle, Request
from kcoord.proxy.guards.hidden_names import HiddenNames
from kcoord.proxy.guards.refusing import Refusal, refusal_pieces
from kcoord.proxy.local.answering import GROUP_APIS, LIMITS, UNSERVED, BrokerEndpoint, find_coordinator, no_groups
from kcoord.proxy.local.client_link import ClientLink
from kcoord.proxy.local.journal_events import JournalEvents
from kcoord.proxy.local.kafka_topic import KafkaJournal, ensure_topic, find_topic_id
from kcoord.proxy.local.kafka_writer import KafkaWriter
from kcoord.proxy.local.offset_seeding import OffsetSeeder
from kcoord.proxy.local.runtime import LocalRuntime, RuntimeSetup
from kcoord.proxy.local.topic_refresher import TopicRefresher
from kcoord.proxy.local.upstream_topics import MirroredTopics
from kcoord.server.clock import instant

log = logging.getLogger("kcoord.groups")

_FIND_COORDINATOR: Final = ApiKey.FIND_COORDINATOR
_LIST_GROUPS: Final = ApiKey.LIST_GROUPS
_NOT_READ: Final = "the group is not read yet"
_OFFSETS_NOT_KNOWN: Final = "what the group has committed upstream is not known yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSetup:
    """The settings of local coordination, by which the proxy coordinates groups itself. `journal` is set if the groups'
    records are stored in a topic of the upstream cluster; otherwise `runtime` states where they are stored. `seed`
    matches the groups whose upstream offsets are taken over.
    """

    upstream: Connection
    runtime: RuntimeSetup = field(default_factory=RuntimeSetup)
    journal: KafkaJournal | None = None
    hidden: tuple[HiddenNames, ...] = ()
    """The names that clients may not reach, such as the journal's. They learn the ids of their topics."""
    seed: re.Pattern[str] | None = None


class LocalCoordination:
    """An Interceptor that passes group requests to a group coordinator in this process, instead of the upstream
    cluster.
    """

    interests = GROUP_APIS | UNSERVED | {ApiKey.FIND_COORDINATOR}
    observed = frozenset({ApiKey.METADATA})
    limits: Mapping[int, range] = LIMITS

    def __init__(self, setup: LocalSetup, make_runtime: Callable[..., LocalRuntime] = LocalRuntime) -> None:
        self.coordinator_endpoint: Callable[[], BrokerEndpoint | None] = lambda: None
        self._setup = setup
        self._make_runtime = make_runtime
        self._topics = MirroredTopics(hidden=setup.journal.topic if setup.journal else None, found=self._learn_topic_id)
        self._links: dict[ClientInfo, ClientLink] = {}
        self._journal_events: JournalEvents | None = None
        self._seeder: OffsetSeeder | None = None
        self._seeding_tasks: dict[ClientInfo, asyncio.Task[None]] = {}  # clients whose groups are being seeded
        self._is_ending = False

    async def __aenter__(self) -> Self:
        """Starts the coordinator. Raises BadJournalTopic, CannotServe or ConnectionError."""
        runtime = self._setup.runtime
        async with AsyncExitStack() as stack:
            if journal := self._setup.journal:
                topic = await asyncio.to_thread(ensure_topic, journal)
                await self._learn_journal_topic_id(journal)
                self._journal_events = JournalEvents(
                    journal.topic, topic.partitions, partial(KafkaWriter, journal, topic)
                )
                runtime = runtime.limited_to(topic.largest_record)
            make_log = self._journal_events.make_log if self._journal_events else None
            self.runtime = self._make_runtime(runtime, self._topics, make_log)
            await stack.enter_async_context(self.runtime)
            refreshing = TopicRefresher(
                self._setup.upstream, self._topics, self.runtime.coordinator, self.runtime.drain_parked
            )
            stack.push_async_callback(refreshing.end)
            await refreshing.begin()
            if self._journal_events:
                self._journal_events.begin(self.runtime)
                stack.push_async_callback(self._journal_events.end)
            if pattern := self._setup.seed:
                groups = self.runtime.coordinator
                self._seeder = OffsetSeeder(pattern, self._setup.upstream, groups, self._topics, instant)
                stack.push_async_callback(self._seeder.end)
            self._exit_stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._is_ending = True
        waiting = list(self._seeding_tasks.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await self._exit_stack.aclose()

    async def _learn_journal_topic_id(self, journal: KafkaJournal) -> None:
        """Adds the journal's topic id to the hidden names, before clients are served. Raises BadJournalTopic."""
        if self._setup.hidden:
            topic_id = await asyncio.to_thread(find_topic_id, journal)
            if topic_id is not None:
                self._learn_topic_id(journal.topic, topic_id)

    def _learn_topic_id(self, name: str, topic_id: UUID) -> None:
        for hidden in self._setup.hidden:
            if hidden.topic == name:
                hidden.learn_topic_id(topic_id)

    def why_not_ready(self) -> str | None:
        """Returns why not all groups are served yet, or None if they are."""
        if self._is_fenced:
            return "another proxy coordinates the groups now"
        return "groups are being read" if self.runtime.coordinator.is_loading else None

    # interceptors.Interceptor

    def request(self, client: ClientInfo, request: Request) -> Decision:
        """Decides on a request: group APIs are handled by the coordinator, FindCoordinator and other brokers'
        ListGroups are answered at once.
        """
        if request.api_key == _FIND_COORDINATOR:
            has_no_coordinator = self._is_fenced or self._is_ending
            pieces = find_coordinator(request, None if has_no_coordinator else self.coordinator_endpoint())
            return PASS if pieces is None else Answer(pieces)
        if request.api_key in UNSERVED:
            raise CorruptMessage(f"API key {request.api_key} is not served with --coordinate local")
        if request.api_key == _LIST_GROUPS and self._is_other_broker(client):
            return Answer(no_groups(request))
        return Handle(lambda: self._handle(client, request))

    def response(self, client: ClientInfo, request: Request, frame: bytes) -> None:
        """Learns topics from an observed Metadata response."""
        _, response = decode_response(frame, request.api_key, request.api_version)
        self._topics.on_metadata(response)

    def on_closed(self, client: ClientInfo) -> None:
        """Ends the client's link to the coordinator."""
        if waiting := self._seeding_tasks.get(client):
            waiting.cancel()
        if link := self._links.get(client):
            link.on_client_closed()

    @property
    def _is_fenced(self) -> bool:
        return self._journal_events is not None and self._journal_events.is_fenced

    def _is_other_broker(self, client: ClientInfo) -> bool:
        """Whether the client means a broker other than the coordinator."""
        endpoint = self.coordinator_endpoint()
        return client.node_id is not None and endpoint is not None and client.node_id != endpoint.node_id

    def _handle(self, client: ClientInfo, request: Request) -> None:
        if self._is_ending:  # a commit from now on could go unnoticed by the next coordinator
            client.hang_up("the coordinator ends")
            return
        if self._seeder is None:
            self._ask(client, request)
            return
        try:
            group_ids = self._seeder.groups_to_check(request)
        except CorruptMessage as error:
            client.hang_up(f"a malformed request: {error}")
            return
        if refusal := self._seeder.refusal(group_ids):
            client.answer(_refused(request, refusal, _NOT_READ))
        elif self._seeder.groups_to_seed(group_ids):
            waiting = asyncio.create_task(self._ask_when_seeded(self._seeder, group_ids, client, request))
            self._seeding_tasks[client] = waiting
            waiting.add_done_callback(partial(self._on_seeding_done, client))
        else:
            self._ask(client, request)

    def _on_seeding_done(self, client: ClientInfo, task: asyncio.Task[None]) -> None:
        """Forgets the task of a client, unless the client's next request has already begun another."""
        if self._seeding_tasks.get(client) is task:
            del self._seeding_tasks[client]

    async def _ask_when_seeded(
        self, seeder: OffsetSeeder, group_ids: list[str], client: ClientInfo, request: Request
    ) -> None:
        try:
            await seeder.take_over(group_ids)
        except (OSError, Refused) as error:
            log.warning("not seeded groups=%s why=%r", group_ids, str(error))
            client.answer(_refused(request, ErrorCode.coordinator_not_available, _OFFSETS_NOT_KNOWN))
        except Exception:
            log.exception("bug: groups are not seeded")
            client.hang_up("a fault of the server")
        else:
            if refusal := seeder.refusal(group_ids):  # the journal was lost while seeding
                client.answer(_refused(request, refusal, _NOT_READ))
            else:
                self._ask(client, request)

    def _ask(self, client: ClientInfo, request: Request) -> None:
        link = self._links.get(client)
        if link is None:
            answers = self._journal_events.held_responses if self._journal_events else None
            link = self._links[client] = ClientLink(client, self.runtime.connect(), answers, self._forget)
        link.ask(request)

    def _forget(self, link: ClientLink) -> None:
        if self._links.get(link.client) is link:
            del self._links[link.client]


def _refused(request: Request, error: ErrorCode, why: str) -> list[bytes]:
    """Encodes the response that refuses a request with a retriable error."""
    _, entity = decode_request(request.frame, request.api_key, request.api_version)
    return refusal_pieces(request.api_key, request.api_version, request.correlation_id, entity, Refusal(error, why))
