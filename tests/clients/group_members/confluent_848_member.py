"""confluent-kafka as a member of a consumer group, KIP-848.

The broker plans there, so it also decides the assignor and the session times, which a classic member requests.
The reported generation is the member's epoch.
"""

from confluent_kafka import Consumer

from tests.clients.group_members.confluent_member import ConfluentMember
from tests.clients.group_members.member import Join, Membership, run_member


class ConsumerProtocolMember(ConfluentMember):
    def join(self, request: Join) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": request.bootstrap,
                "client.id": request.client_id,
                "group.id": request.group,
                "group.protocol": "consumer",
                "max.poll.interval.ms": request.max_poll_interval_ms,
                "topic.metadata.refresh.interval.ms": request.metadata_max_age_ms,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe(request.topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)


if __name__ == "__main__":
    membership = Membership()
    run_member(ConsumerProtocolMember(membership), membership)
