"""What other client libraries than Java's plan when one of them leads a group: the leader's library decides the plan.

table            the libraries and their strategies: how each differs from Java, which lists of strategies it refuses
reading          what a leader reads from the subscriptions of members

librdkafka       range, roundrobin, cooperative-sticky
kafka_python     range, roundrobin, sticky, cooperative-sticky
sarama           the same
franz_go         range and roundrobin; franz_go_sticky has the others
original_sticky  the sticky algorithm that librdkafka, kafka-python and sarama have in common
circle           range and round robin over members in a given order
byte_order       the order of names outside Java

Each function takes and returns what Kafka's own assignors do here. None of it is the libraries' code.
"""
