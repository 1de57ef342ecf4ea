"""Which member of a group gets which partitions: Kafka's assignors, as pure functions, and a laboratory around them.

plan                    subscribers, topics, plans
subscriptions           what an assignor reads from the bytes of a subscription
strategies              the table of strategies, by the names that members vote for

range, round_robin      Kafka's client-side assignors that know no past
sticky/                 Kafka's sticky and cooperative sticky assignors
server_side/            the assignors of Kafka's group coordinator (KIP-848): uniform and range
dealing, left_over      how partitions are dealt out to members, many at once
racks                   when racks are considered (KIP-881)

libraries/              what other client libraries plan when one of them leads
comparison              what a strategy makes of a group: balance, moves, pauses
scenario                a group before and after a change, and what-ifs
replaying/              what strategies would have cost a group over its recorded history

Where a choice is free, Kafka's code takes the order in which a Java HashMap has its keys. kcoord.java_hashing computes
that order, so that the plans here are exactly Kafka's.
"""
