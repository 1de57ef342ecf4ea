"""The assignors of Kafka's group coordinator for consumer groups (KIP-848): uniform and range.

served_group          the group as the coordinator gives it to them
uniform               the uniform assignor, if all members are subscribed to the same topics
uniform_mixed_topics  the same assignor, if they are not
range                 the range assignor
"""
