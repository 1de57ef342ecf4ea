"""What confluent-kafka can ask beyond producing and consuming: admin requests, transactions, KIP-848 groups.

python confluent_admin.py BOOTSTRAP TOPIC      the topic holds records, in two partitions
"""

import sys
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its own types do not export them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)


def main(bootstrap: str, topic: str) -> None:
    group = f"{topic}-consumer-protocol"
    join_consumer_group(bootstrap, topic, group)
    write_transaction(bootstrap, topic, group)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    administer_topics(admin, f"{topic}-admin")
    administer_groups(admin, topic, group)
    describe_living_group(admin, bootstrap, topic, f"{topic}-living")


def join_consumer_group(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    consumer.commit(asynchronous=False)
    consumer.close()


def write_transaction(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-transaction"})
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value", b"key", partition=0)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata())
        end()
    consumer.close()


def administer_topics(admin: AdminClient, topic: str) -> None:
    wait(admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})]))
    wait(admin.create_partitions([NewPartitions(topic, 2)]))
    entry = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
    wait(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))
    wait(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    wait(admin.describe_topics(TopicCollection([topic])))
    admin.describe_cluster().result()
    for moment in ("earliest", "latest", "max_timestamp"):
        wait(admin.list_offsets({TopicPartition(topic, 0): getattr(OffsetSpec, moment)()}))
    wait(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.for_timestamp(0)}))
    wait(admin.delete_records([TopicPartition(topic, 0, 0)]))
    wait(admin.delete_topics([topic]))


def administer_groups(admin: AdminClient, topic: str, group: str) -> None:
    admin.list_consumer_groups().result()
    wait(admin.describe_consumer_groups([group]))
    wait(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    wait(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])]))
    wait(admin.delete_consumer_groups([group]))


def describe_living_group(admin: AdminClient, bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    admin.list_consumer_groups().result()
    wait(admin.describe_consumer_groups([group]))
    consumer.close()


def wait(answers: Mapping[Any, Future[Any]]) -> None:
    for answer in answers.values():
        answer.result(30)


if __name__ == "__main__":
    main(*sys.argv[1:])
