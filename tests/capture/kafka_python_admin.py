"""What kafka-python can ask beyond producing and consuming.

python kafka_python_admin.py BOOTSTRAP TOPIC GROUP      the group has committed offsets and no members
"""

import sys

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic, OffsetSpec
from kafka.structs import OffsetAndMetadata


def main(bootstrap: str, topic: str, group: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    administer_topics(admin, f"{topic}-admin")
    administer_groups(admin, topic, group)
    admin.close()


def administer_topics(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    admin.wait_for_topics([topic])
    admin.create_partitions({topic: NewPartitions(2)})
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "1000000"})
    admin.alter_configs([resource])
    admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    admin.describe_topics([topic])
    admin.describe_cluster()
    admin.list_partition_offsets({TopicPartition(topic, 0): OffsetSpec.LATEST})
    admin.delete_records({TopicPartition(topic, 0): 0})
    admin.delete_topics([topic])


def administer_groups(admin: KafkaAdminClient, topic: str, group: str) -> None:
    admin.list_groups()
    admin.describe_groups([group])
    admin.list_group_offsets({group: None})
    admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    admin.delete_group_offsets(group, [TopicPartition(topic, 0)])
    admin.delete_groups([group])


if __name__ == "__main__":
    main(*sys.argv[1:])
