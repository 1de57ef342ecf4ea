"""The group coordinator, pure: a request and an instant go in, effects come out. Nothing here waits, reads or writes.

coordinator            every request of a group, and the passing of time; start reading here
registry               the groups that exist, created and removed by records alone
requests, replies      version-free requests and replies
effects, records       what a request causes, and the durable facts among it
instant, deadlines     the two clocks, and who wants to be woken when
usage                  groups, members and bytes by holder, and who may hold more
topics                 what the coordinator asks of the cluster
describing             ListGroups, DescribeGroups
foreign_groups         groups of other kinds, read from a broker's log
classic/
    state, member, group                    the mutable state of a group, all of it
    protocols, fencing                      rules that several requests share
    rebalancing                             the join phase: how it begins and how it ends
    joining, syncing, sessions, leaving     JoinGroup, SyncGroup, Heartbeat and expiry, LeaveGroup
    prevalidated                            repeated heartbeats, commits, joins and syncs, in fewer steps
offsets/
    committed_offsets                       the offsets of one group
    committing, fetching, retention         OffsetCommit, OffsetFetch and OffsetDelete, expiry of offsets
    partition_results                       one result per partition, as OffsetCommit and OffsetDelete return them
"""
