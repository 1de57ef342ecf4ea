"""The group coordinator, pure: a request and an instant go in, effects come out. Nothing here waits, reads or writes.

requests, replies      what is asked and answered, free of versions
effects, records       what must happen; the durable facts among it
instant, deadlines     what time it is, and who wants to be woken when
state, member, kept_offsets, group      the one place of mutable state
held                   how much of what is limited is held, by whom, and who may hold more
protocols, fencing, verdicts            rules that several requests share
rebalancing            the join phase: how it begins, who ends it
joining, syncing, sessions, leaving     JoinGroup, SyncGroup, Heartbeat and expiry, LeaveGroup
committing, offsets, retention          OffsetCommit, OffsetFetch and OffsetDelete, expiry of offsets
standing               heartbeats, commits, joins and syncs that come again, in fewer steps
others                 groups of other kinds, from the log of a broker
describing             ListGroups, DescribeGroups
registry, coordinator  the groups that there are, and what is asked of them; start reading there
"""
