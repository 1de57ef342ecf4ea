"""`--coordinate local`: the proxy's process coordinates the groups; topics and their records stay upstream.

a client's group request ─ coordination ─ client_link ─ server/connection ─ … ─ groups/* decides
                                              ▲                                     │ records
the client ◄─ held_responses: once committed ─┘                                     ▼
                    ▲ committed, lost, fenced (journal_events)       the journal: memory, files, or kafka_log
                    └─────────────────── kafka_writer, a separate thread ◄──────────┘

coordination     the interceptor: which requests are handled here, and by what; wiring adds it to a proxy
client_link      a client's connection to the coordinator, without a socket
answering        answers that need no coordinator: FindCoordinator, ListGroups of other brokers; the served versions
runtime          the running coordinator, without listeners, and its settings
upstream_topics  the upstream's topics as the coordinator sees them; topic_refresher updates them
kafka_log        the journal on the upstream cluster, as the coordinator sees it
kafka_writer     the thread that writes the journal, and reads it with kafka_reader; kafka_topic creates its topic
journal_claims   decides, when the writer is fenced, whether another proxy has taken over the journal
journal_events   applies the writer's reports; held_responses are the answers that wait for them
offset_seeding   takes over a group's upstream offsets when a client first names the group
"""
