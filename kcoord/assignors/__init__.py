"""Assignors: pure functions from subscriptions to the partitions of each member.

| file   | contains                                                                                 |
|--------|------------------------------------------------------------------------------------------|
| plan   | the types: subscribers, partition counts, plans                                          |
| range  | assigns each topic by itself, in adjacent partitions: Kafka's default                    |
| sticky | assigns all topics together, as evenly as the subscriptions allow, moving few partitions |
"""
