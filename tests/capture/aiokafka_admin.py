"""What aiokafka can ask beyond producing and consuming.

python aiokafka_admin.py BOOTSTRAP TOPIC GROUP      the group has committed offsets and no members
"""

import asyncio
import sys

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType


async def main(bootstrap: str, topic: str, group: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await administer_topics(admin, f"{topic}-admin")
    await admin.list_consumer_groups()
    await admin.describe_consumer_groups([group])
    await admin.list_consumer_group_offsets(group)
    await admin.close()


async def administer_topics(admin: AIOKafkaAdminClient, topic: str) -> None:
    await admin.create_topics([NewTopic(name=topic, num_partitions=1, replication_factor=1)])
    await admin.create_partitions({topic: NewPartitions(2)})
    await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    await admin.describe_topics([topic])
    await admin.describe_cluster()
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=0)})
    await admin.delete_topics([topic])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
