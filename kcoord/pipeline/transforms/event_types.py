"""The types of records in the table `group_events`, by the numbers that their keys begin with.

| says                                                            | consumer | share | streams |
|-----------------------------------------------------------------|----------|-------|---------|
| the group's epoch: one more at each change of members or topics | 3        | 11    | 17      |
| who a member is, and what it subscribes to                      | 5        | 10    | 19      |
| which epoch has a complete target assignment                    | 6        |       |         |
| the target assignment of a member                               | 7        |       |         |
| which epoch a member has reached, and what it owns              | 8        | 14    | 22      |
| the topics that a regular expression matches                    | 16       |       |         |

The tables need no others of share and streams groups.
"""

from typing import Final

EPOCH: Final = 3
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
PATTERN: Final = 16

SHARE_MEMBER: Final = 10
SHARE_EPOCH: Final = 11
SHARE_CURRENT: Final = 14

STREAMS_EPOCH: Final = 17
STREAMS_MEMBER: Final = 19
STREAMS_CURRENT: Final = 22

GROUP_EPOCHS: Final = (EPOCH, SHARE_EPOCH, STREAMS_EPOCH)
MEMBERS_AND_TARGETS: Final = (EPOCH, MEMBER, TARGET_EPOCH, TARGET, PATTERN)
"""The records of a consumer group that say who is in it and what the coordinator has assigned."""
