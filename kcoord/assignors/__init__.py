"""How members of a group come by their partitions: pure functions from who wants what to who gets what.

| file   | tells                                                                                    |
|--------|------------------------------------------------------------------------------------------|
| plan   | the words: subscriptions, partition counts, plans                                        |
| range  | each topic by itself, in neighbouring partitions: Kafka's default                        |
| sticky | all topics together, as even as the subscriptions allow, moving as little as possible    |
"""
