"""The coordinator of one node: pure, without a clock of its own.

    effects = coordinator.join(request, ticket, at)
    ...
    at coordinator.deadline():  effects = coordinator.tick(at)

A request is answered within its effects, or it is parked: its ticket is then on a member, and is answered within the
effects of a later call. Requests that only read, and heartbeats, return their reply instead of effects. The driver
appends the records of the effects before it sends their replies. If it cannot, it calls `unload`: whatever was decided
since the last append is dropped, and the records in the log are replayed.

Recovery is `replay(record)` for each record of the log in order, then `resume(at)`.
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from kcoord.errors import ErrorCode
from kcoord.groups import describing
from kcoord.groups.classic import joining, leaving, rebalancing, sessions, syncing
from kcoord.groups.classic.group import Group
from kcoord.groups.classic.member import Holder, Member
from kcoord.groups.classic.prevalidated import (
    PrevalidatedCommit,
    PrevalidatedHeartbeat,
    PrevalidatedJoin,
    PrevalidatedSync,
)
from kcoord.groups.classic.state import State
from kcoord.groups.deadlines import Deadline, Purpose
from kcoord.groups.effects import NO_EFFECTS, Cause, Effects, Reason, answer, merge
from kcoord.groups.instant import Instant
from kcoord.groups.offsets import committing, fetching, retention
from kcoord.groups.registry import Registry
from kcoord.groups.replies import (
    CommitReply,
    DeletedGroup,
    DeleteGroupsReply,
    DeleteOffsetsReply,
    DescribedGroup,
    DescribeGroupsReply,
    FetchOffsetsReply,
    HeartbeatReply,
    JoinReply,
    ListGroupsReply,
    OffsetGroup,
    SyncReply,
)
from kcoord.groups.requests import (
    Commit,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    ListGroups,
    RequestedGroup,
    Sync,
)
from kcoord.groups.topics import RecreatedTopic, Topics
from kcoord.groups.usage import group_bytes, member_bytes
from kcoord.settings import Settings
from kcoord.tickets import Ticket

_HEARTBEAT_REPLIES = {error: HeartbeatReply(error_code=error) for error in ErrorCode}  # the most common reply of all


class Coordinator(Registry):
    """The group coordinator of one broker, without I/O: each method takes a version-free request and the current
    instant, changes the groups in memory, and returns a reply or effects (replies and records of `__consumer_offsets`).

    A `ticket` is the handle of a request: the effects pair each reply with the ticket of the request that it answers. A
    request may be parked, and is then answered by the effects of a later call.

    `fresh_id` returns the suffix of a new member id. `refusal` returns the error of a group that is unavailable here or
    now (such as NOT_COORDINATOR), or None, and `list_refusal` the error that prevents listing all groups.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        topics: Topics,
        fresh_id: Callable[[], str],
        refusal: Callable[[str], ErrorCode | None] = lambda group_id: None,
        list_refusal: Callable[[], ErrorCode | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._topics = topics
        self._fresh_id = fresh_id
        self._refusal = refusal
        self._list_refusal = list_refusal
        self._initial_delay = settings.group_initial_rebalance_delay_ms / 1000

    # Membership.

    def join(self, request: Join, ticket: Ticket, at: Instant) -> Effects:
        """Decides a JoinGroup request: the member is refused, answered at once, or parked until the join phase of the
        rebalance ends. Returns the effects; a group that does not exist yet is created."""
        if error := joining.refusal(request, self._settings):
            return joining.refuse(ticket, error, request.member_id)
        if error := self._refusal(request.group_id):
            return joining.refuse(ticket, error, "")
        group, other = self.groups.get(request.group_id), self.foreign_groups.get(request.group_id)
        if group is not None and self._lacks_bytes_for(request, group):
            return joining.refuse(ticket, ErrorCode.policy_violation, request.member_id)
        if group is not None and other is None and request.member_id:  # the most common case: no group is to be created
            return joining.join(group, request, ticket, at, self._settings, "")
        if self.has_foreign_members(request.group_id):
            return joining.refuse(ticket, ErrorCode.inconsistent_group_protocol, request.member_id)
        if group is None and request.member_id:
            return joining.refuse(ticket, ErrorCode.unknown_member_id, request.member_id)
        if self._is_full_for(request, group) or (group is None and self._lacks_bytes_for(request, None)):
            return joining.refuse(ticket, ErrorCode.policy_violation, "")
        made = self.convert_to_classic(other) if other is not None else NO_EFFECTS
        if group is None:
            group, new = self.create_group(request.group_id, request.holder, at)
            made += new
        fresh_id = "" if request.member_id else self._fresh_id()  # randomness takes longer than all other steps
        return made + joining.join(group, request, ticket, at, self._settings, fresh_id)

    def sync(self, request: Sync, ticket: Ticket, at: Instant) -> Effects:
        """Decides a SyncGroup request: the leader's assignments complete the rebalance, a follower gets its assignment
        or is parked until the leader has sent them. Returns the effects."""
        if request.lacks_protocol:
            return syncing.refuse(ticket, ErrorCode.inconsistent_group_protocol)
        group = self._group_of_member(request.group_id)
        if not isinstance(group, Group):
            return syncing.refuse(ticket, group)
        if self._lacks_bytes_for_plan(group, request):
            return syncing.refuse(ticket, ErrorCode.policy_violation)
        return syncing.sync(group, request, ticket, at, self._settings)

    def heartbeat(self, request: Heartbeat, ticket: Ticket, at: Instant) -> HeartbeatReply:
        """Renews the member's session and returns the reply to its Heartbeat, whose error tells the client to rejoin,
        or that it is fenced or unknown."""
        group = self._group_of_member(request.group_id)
        error = sessions.heartbeat(group, request, at) if isinstance(group, Group) else group
        # While the group is being loaded, heartbeats succeed (GroupCoordinatorService.heartbeat).
        return _HEARTBEAT_REPLIES[ErrorCode.none if error is ErrorCode.coordinator_load_in_progress else error]

    def leave(self, request: Leave, ticket: Ticket, at: Instant) -> Effects:
        """Decides a LeaveGroup request: removes its members, which begins a rebalance, and returns the effects."""
        group = self._group_of_member(request.group_id)
        if isinstance(group, Group):
            return leaving.leave(group, request, ticket, at, self._initial_delay)
        if group is ErrorCode.unknown_member_id:
            return answer(ticket, leaving.reply_unknown_to_all(request))
        return leaving.refuse(ticket, group)

    # Offsets.

    def commit(self, request: Commit, ticket: Ticket, at: Instant) -> Effects:
        """Decides an OffsetCommit request: the effects are its reply and a record for each topic that has an accepted
        partition."""
        known = self.groups.get(request.group_id)
        member = known.members.get(request.member_id) if known is not None else None
        if known is not None and member is not None and (template := self._matching_template(known, member, request)):
            known.renew_session(member, at.now)
            return Effects(
                ((ticket, template.reply),),
                (committing.apply_repeated(known, template.partitions, request.offsets, at),),
            )
        topics = committing.validate_partitions(request, self._topics)
        if not [topic for topic in topics if topic.partitions]:
            return answer(ticket, committing.reply(topics))
        group = self._group_of_commit(request, at)
        if not isinstance(group, Group):
            return answer(ticket, committing.refuse(topics, group))
        if error := committing.fence_commit(group, request):
            return answer(ticket, committing.refuse(topics, error))
        group.adopt(request.holder)
        if self._lacks_bytes_to_commit(group, topics):
            return answer(ticket, committing.refuse(topics, ErrorCode.policy_violation))
        records = committing.records_of(request, topics, self._settings.offset_metadata_max_bytes, at)
        reply = committing.reply(topics)
        if member is not None:
            committing.remember_template(member, request, topics, records, reply, self._topics)
            group.renew_session(member, at.now)
        if records:  # a commit without any accepted partition creates no group, since it writes no record
            self.groups.setdefault(group.group_id, group)
            for record in records:
                group.committed_offsets.apply(record)
            group.update_usage()
        return Effects(((ticket, reply),), tuple(records))

    def fetch_offsets(self, request: FetchOffsets, ticket: Ticket, at: Instant) -> FetchOffsetsReply:
        """Returns the reply to an OffsetFetch request for one or several groups."""
        return FetchOffsetsReply(groups=tuple(self._offsets_of(asked, request.is_by_id) for asked in request.groups))

    def delete_offsets(self, request: DeleteOffsets, ticket: Ticket, at: Instant) -> Effects:
        """Decides an OffsetDelete request: deletes the offsets of topics that the group does not subscribe to, and
        returns the reply and the tombstones as effects."""
        if not request.group_id:
            return answer(ticket, DeleteOffsetsReply(error_code=ErrorCode.invalid_group_id))
        if refused := self._refusal(request.group_id):
            return answer(ticket, DeleteOffsetsReply(error_code=refused))
        group = self.groups.get(request.group_id)
        is_in_use = self.has_foreign_members(request.group_id)
        error = ErrorCode.non_empty_group if is_in_use else fetching.fence_delete(group)
        if group is None or error:
            return answer(ticket, DeleteOffsetsReply(error_code=error or ErrorCode.group_id_not_found))
        lines, records = fetching.delete(group, request.topics, self._topics)
        self.replay_all(records)
        return Effects(((ticket, DeleteOffsetsReply(topics=lines)),), tuple(records))

    # Prevalidation: each method returns the prevalidated form of a request that was just answered with `reply`, or None
    # if its checks may not hold the next time.

    def prevalidate_join(self, request: Join, reply: JoinReply | None) -> PrevalidatedJoin | None:
        """Returns an object that decides this member's next JoinGroup in fewer steps, since it remembers which checks
        this one has passed; None if they may not hold then. `reply` is what this request got, None if it was parked; a
        refused join has no such object."""
        group, member = self._known_member(request.group_id, request.member_id)
        if group is None or member is None or member.instance_id != request.instance_id:
            return None
        if reply is not None and reply.error_code is not ErrorCode.none:
            return None
        return PrevalidatedJoin(group, member, request, self._settings.group_max_size)

    def prevalidate_sync(self, request: Sync, reply: SyncReply | None) -> PrevalidatedSync | None:
        """Returns an object that decides this member's next SyncGroup in fewer steps, since it remembers which checks
        this one has passed; None if they may not hold then. `reply` is what this request got, None if it was parked."""
        if reply is not None and reply.error_code is not ErrorCode.none:
            return None
        group, member = self._known_member(request.group_id, request.member_id)
        if group is None or member is None or request.instance_id not in (None, member.instance_id):
            return None
        return None if request.lacks_protocol or request.plan else PrevalidatedSync(group, member, request)

    def prevalidate_heartbeat(self, request: Heartbeat, reply: HeartbeatReply) -> PrevalidatedHeartbeat | None:
        """Returns an object that decides this member's next Heartbeats in fewer steps, since it remembers which checks
        this one has passed; None if this one was refused or the group is not Stable."""
        group = self._stable_group(request)
        is_well = group is not None and reply is _HEARTBEAT_REPLIES[ErrorCode.none]
        return PrevalidatedHeartbeat(group, group.members[request.member_id]) if group is not None and is_well else None

    def prevalidate_commit(self, request: Commit, reply: CommitReply) -> PrevalidatedCommit | None:
        """Returns an object that decides this member's next OffsetCommits to the same partitions in fewer steps, since
        it remembers which checks this one has passed; None if the group is not Stable or this commit was not accepted
        whole."""
        group = self._stable_group(request)
        member = group.members[request.member_id] if group is not None else None
        template = member.commit_template if member is not None else None
        if group is None or member is None or template is None or template.reply is not reply:
            return None
        return PrevalidatedCommit(group, member, template, self._topics)

    # Operators.

    def list_groups(self, request: ListGroups, ticket: Ticket, at: Instant) -> ListGroupsReply:
        """Returns the reply to a ListGroups request, which has the groups of all kinds that match its filters."""
        if error := self._list_refusal():
            return ListGroupsReply(groups=(), error_code=error)
        groups = [group for group in self.groups.values() if group.group_id not in self.foreign_groups]
        return describing.list_groups(groups, self.foreign_groups.values(), request)

    def describe_groups(self, request: DescribeGroups, ticket: Ticket, at: Instant) -> DescribeGroupsReply:
        """Returns the reply to a DescribeGroups request; groups that are not classic are reported as not found."""
        groups = tuple(self._described(group_id, request.include_operations) for group_id in request.group_ids)
        return DescribeGroupsReply(groups=groups)

    def delete_groups(self, request: DeleteGroups, ticket: Ticket, at: Instant) -> Effects:
        """Decides a DeleteGroups request: deletes each group that has no members, and returns one result per group and
        the tombstones as effects."""
        group_ids = list(dict.fromkeys(request.group_ids))
        errors = [self._fence_delete(group_id) for group_id in group_ids]
        good = [group_id for group_id, error in zip(group_ids, errors, strict=True) if not error]
        deleted = merge(self.delete(group_id) for group_id in good)
        results = tuple(
            DeletedGroup(group_id=group_id, error_code=error or ErrorCode.none)
            for group_id, error in zip(group_ids, errors, strict=True)
        )
        return deleted + answer(ticket, DeleteGroupsReply(results=results))

    # Time, and changes elsewhere in the cluster.

    def deadline(self) -> float | None:
        """Returns the monotonic instant, in seconds, at which to call `tick`, or None if no session or rebalance phase
        is running."""
        return self._deadlines.next()

    def has_due(self, now: float) -> bool:
        """Returns whether the deadline of a session or of a rebalance phase has passed by `now`, in monotonic
        seconds."""
        return self._deadlines.has_due(now)

    def tick(self, at: Instant, *, passed_by: float | None = None) -> Effects:
        """Expires the sessions and rebalance phases whose deadlines have passed, and returns the effects. The deadlines
        are compared with `at`, or with the earlier monotonic instant `passed_by` if it is given."""
        now = at.now if passed_by is None else passed_by
        return merge(self._expire(deadline, at) for deadline in self._deadlines.take_due(now))

    def expire_offsets(self, at: Instant) -> Effects:
        """Deletes the offsets that are older than `offsets.retention.minutes`, and groups without members together with
        their last offset. Returns the tombstones as effects; called now and then."""
        return merge(self._expire_offsets_of(group, at) for group in list(self.groups.values()))

    def topic_deleted(
        self,
        name: str,
        topic_id: UUID,
        is_known: Callable[[str], bool] = lambda group_id: True,
        *,
        recreated: RecreatedTopic | None = None,
    ) -> Effects:
        """Deletes the offsets that groups have committed for a topic that was deleted, and returns the records as
        effects. If a topic of the same name was `recreated`, offsets that may be meant for it are moved to it.

        Only groups that `is_known` accepts are changed; it excludes groups that are not fully replayed yet.
        """
        concerned = [group for group in self.groups.values() if name in group.offsets and is_known(group.group_id)]
        records = [
            record
            for group in concerned
            for record in fetching.records_of_deleted_topic(group, name, topic_id, recreated)
        ]
        self.replay_all(records)
        return Effects((), tuple(records))

    # Recovery.

    def resume(self, at: Instant, is_back: Callable[[str], bool] = lambda group_id: True) -> Effects:
        """Starts the sessions of the members of recovered groups, once all records of a partition of
        `__consumer_offsets` are replayed. `is_back` accepts the ids of these groups.

        A group that exceeds a limit lowered meanwhile is rebalanced, so that it shrinks.
        """
        back = [group for group_id, group in self.groups.items() if is_back(group_id)]
        return merge(self._resume(group, at) for group in back)

    def _group_of_member(self, group_id: str) -> Group | ErrorCode:
        if not group_id:
            return ErrorCode.invalid_group_id
        if error := self._refusal(group_id):
            return error
        return self.groups.get(group_id) or ErrorCode.unknown_member_id

    def _known_member(self, group_id: str, member_id: str) -> tuple[Group | None, Member | None]:
        group = self.groups.get(group_id)
        return group, group.members.get(member_id) if group is not None else None

    def _stable_group(self, request: Heartbeat | Commit) -> Group | None:
        """Returns the group if it is Stable, in the request's generation, and has the member."""
        group = self.groups.get(request.group_id)
        if group is None or group.state is not State.STABLE or group.generation != request.generation:
            return None
        return group if request.member_id in group.members else None

    def _matching_template(self, group: Group, member: Member, request: Commit) -> committing.CommitTemplate | None:
        """Returns the member's commit template if the request matches it and the member may commit."""
        template = committing.matching_template(member, request, self._topics)
        if template is None or self._refusal(group.group_id):
            return None
        is_dynamic, is_current = request.instance_id is None, request.generation == group.generation
        if group.state is State.STABLE and is_dynamic and is_current:  # the most common case: nothing to fence
            return template
        return None if committing.fence_commit(group, request) else template

    def _group_of_commit(self, request: Commit, at: Instant) -> Group | ErrorCode:
        if error := self._refusal(request.group_id):
            return error
        if self.has_foreign_members(request.group_id):
            return ErrorCode.unknown_member_id
        group = self.groups.get(request.group_id)
        if group is None and request.generation >= 0:
            return ErrorCode.group_id_not_found
        if group is None and self._has_all_groups(request.holder):
            return ErrorCode.policy_violation
        owner = request.holder
        return group or Group(request.group_id, self._deadlines, self._usage, since_ms=at.wall_ms, owner=owner)

    def _is_full_for(self, request: Join, group: Group | None) -> bool:
        """Whether the join would exceed the limit of groups or members."""
        if request.member_id or (group is not None and request.instance_id in group.member_ids_by_instance):
            return False
        holder, most = request.holder, self._settings.kcoord_max_members
        is_one_too_many = not self._usage.members.has_room(holder, 1, most)
        return is_one_too_many or (group is None and self._has_all_groups(holder))

    def _lacks_bytes_for(self, request: Join, group: Group | None) -> bool:
        """Whether the join would exceed the client's limit of bytes. A member that brings no more than it had may
        join."""
        known = None
        if group is not None:
            known_id = request.member_id or group.member_ids_by_instance.get(request.instance_id or "", "")
            known = group.members.get(known_id)
            if known is None and request.member_id and request.member_id not in group.pending:
                return False  # the member is unknown, and is refused as such later
        more = member_bytes(request) - (known.held_bytes if known is not None else 0)
        more += group_bytes(request.group_id) if group is None else 0
        return more > 0 and not self._has_bytes(request.holder, more)

    def _lacks_bytes_to_commit(self, group: Group, topics: Iterable[committing.CommitResults]) -> bool:
        """Whether the commit would exceed the limit of bytes of the group's owner."""
        more = sum(
            group.committed_offsets.bytes_added_by(topic.name or "", topic.partitions, topic.metadata)
            for topic in topics
        )
        more += 0 if group.group_id in self.groups else group_bytes(group.group_id)
        return more > 0 and not self._has_bytes(group.owner, more)

    def _lacks_bytes_for_plan(self, group: Group, request: Sync) -> bool:
        """Whether the plan is so much larger than the last one that it exceeds the limit of bytes of the group's
        owner."""
        if not request.plan or not group.is_leader(request.member_id):
            return False
        more = group.plan_bytes_of(request.plan) - group.plan_bytes
        return more > 0 and not self._has_bytes(group.owner, more)

    def _has_bytes(self, holder: Holder, more: int) -> bool:
        return self._usage.bytes.has_room(holder, more, self._settings.kcoord_groups_max_bytes)

    def _has_all_groups(self, holder: Holder) -> bool:
        return not self._usage.groups.has_room(holder, 1, self._settings.kcoord_max_groups)

    def _offsets_of(self, asked: RequestedGroup, is_by_id: bool) -> OffsetGroup:
        if error := self._refusal(asked.group_id):
            return fetching.refuse(asked, error)
        return fetching.fetch(self.groups.get(asked.group_id), asked, self._topics, is_by_id=is_by_id)

    def _described(self, group_id: str, include_operations: bool) -> DescribedGroup:
        if error := self._refusal(group_id):
            return DescribedGroup(group_id=group_id, error_code=error)
        group = self.groups.get(group_id)
        if group_id in self.foreign_groups:
            return describing.not_classic(group_id, include_operations=include_operations)
        if group is None:
            return describing.not_found(group_id, include_operations=include_operations)
        return describing.describe(group, include_operations=include_operations)

    def _fence_delete(self, group_id: str) -> ErrorCode | None:
        if error := self._refusal(group_id):
            return error
        group = self.groups.get(group_id) or self.foreign_groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        is_free = group.is_empty and not self.has_foreign_members(group_id)
        return None if is_free else ErrorCode.non_empty_group

    def _expire_offsets_of(self, group: Group, at: Instant) -> Effects:
        if self.has_foreign_members(group.group_id):
            return NO_EFFECTS
        records = retention.expired(group, at.wall_ms, self._settings.offsets_retention_minutes * 60_000)
        self.replay_all(records)
        is_over = group.is_empty and not group.offsets
        return Effects((), tuple(records)) + (self.delete(group.group_id) if is_over else NO_EFFECTS)

    def _resume(self, group: Group, at: Instant) -> Effects:
        for member in group.members.values():
            group.renew_session(member, at.now)
        if len(group.members) <= self._settings.group_max_size:
            return NO_EFFECTS
        why = Reason(Cause.GROUP_TOO_LARGE, "group.max.size is exceeded")
        return rebalancing.prepare(group, why, at, self._initial_delay)

    def _expire(self, deadline: Deadline, at: Instant) -> Effects:
        group = self.groups.get(deadline.group_id)
        if group is None:
            return NO_EFFECTS
        match deadline.purpose:
            case Purpose.SESSION:
                return sessions.expire(group, deadline.member_id, at, self._initial_delay)
            case Purpose.JOIN:
                return rebalancing.expire_join_phase(group, at, self._initial_delay)
            case Purpose.SYNC:
                return syncing.expire_sync_phase(group, at, self._initial_delay)
