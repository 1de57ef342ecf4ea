"""Kafka's sticky assignors. sticky plans; cooperative does so and withholds what another member must give up first.

claims        who owns what, by the members' own account
same_topics   the plan if all members are subscribed to the same topics
mixed_topics  the plan otherwise
racks         which partitions a member may get if racks are considered
"""
