"""`--coordinate local`: groups live in the proxy's process, records stay upstream.

a client's request of a group ─ coordination ─ client_link ─ server/connection ─ … ─ groups/* decides
                                                    ▲                                    │ records
the client ◄─ waiting_answers: once that is kept ───┘                                    ▼
                                ▲ kept, lost, another's (journaling)     the journal: memory, files, or kafka_log
                                └───────────────── kafka_writer, a thread of its own ◄───┘

coordination     what is taken from clients and who answers; what starts and ends with the proxy (wiring)
client_link      a client's connection to the coordinator, without a socket
answering        what needs no coordinator: FindCoordinator, ListGroups of other brokers; which versions there are
runtime          the coordinator at work, without listeners; what it starts with
topics           the upstream's topics as the coordinator asks for them; refreshing keeps them true
kafka_log        the journal on the upstream cluster, as the coordinator sees it
kafka_writer     the thread that writes it, and reads it by kafka_reader; kafka_topic makes its topic
claiming         whom the writer gives way to when it is fenced, and from whom it takes the journal back
journaling       what comes of what the writer reports; waiting_answers are those that wait for it
seeding          offsets that groups have upstream, taken over when a group is first asked for
"""
