"""kcoord: a Kafka-compatible group coordinator, an embedded cluster, a proxy and an admin CLI. This page is the map.

The road of a request, and the module of each hop:

    bytes ─ server/connection ─ protocol/frames ─ protocol/codec ─ server/dispatch ─ api/*.to_request
                                                                │  a request: version-free
                                                   broker/* or groups/* decides: PURE
                                                                │  a reply: version-free; of groups also records
                                                                │  server/groups: records ─► offsets_log/group_log
    bytes ─ server/connection ─ protocol/frames ─ protocol/codec ─ server/dispatch

and through the proxy, where most of it is passed on as it is:

    bytes ─ proxy/forwarding/downstream_connection ─ interceptors: guards, observing, local ─► a coordinator of its own
                                        │  what passes
    bytes ◄─ addresses rewritten ─ proxy/forwarding/upstream_connection ◄─ a broker

    folder or file   what is in it
    errors           Kafka's error codes
    settings         what can be set, under Kafka's names
    java_properties  Java's properties files, as Java reads them
    tickets          the names of requests that wait for their answers
    protocol/        bytes and kio's entities: frames, headers, the check before kio reads (validate), writers (encode),
                     codec, responses that many members share but for one field (response_template). schema/ has the
                     messages that kio brings too slowly, records/ the record batches
    client/          a blocking client for brokers: TLS, logins (sasl, scram), how requests are encoded (client_codec),
                     and why it could not connect (connect_errors; listener_probe asks what a port speaks)
    security/        what guards a listener, of a server and of a proxy: users and their credentials, the server's half
                     of a login, TLS, principals; and the rules by which principals may do things. No asyncio
    broker/          the embedded cluster: topics and their settings, Produce, Fetch, ListOffsets, fetch sessions, long
                     polls. log/ is the log of one partition. Reads no clock, no randomness, no environment
    groups/          the group coordinator, pure: see groups/__init__ for its own map. It does not know broker/
    storage/         Kafka's files: the data folder, segments, recovery, checkpoints, the cleaner
    offsets_log/     the records of groups in `__consumer_offsets`: schemas, encoding, decoding, the log itself, dump
    api/             the table of what is served, and one file per Kafka API: entity to request
    metrics/         what is counted, and an HTTP server for Prometheus and for health
    server/          asyncio, sockets, clocks, limits. listener/ accepts and logs in, connection/ reads and answers,
                     dispatch/ finds the API, fast_path/ answers from a cache, groups/ drives the coordinator,
                     authorization/ checks the rules, metrics/ counts; setup, maintenance and process are around them
    assignors/       which member gets which partitions, as consumers plan it: range and sticky. Pure
    admin/           groups and offsets of live clusters, over kcoord's own connections (wire/) or through librdkafka
                     (librdkafka/): how to reach a cluster (connecting/), snapshots and lag (groups/), what is wrong
                     (doctor/), changing offsets with plans and undo (offsets/)
    proxy/           the proxy: see proxy/__init__ for its own map
    pipeline/        the history of groups as tables, on Spark, from log segments and live clusters: see
                     pipeline/__init__ for its own map. Needs the extra `pipeline`; independent of testing/
    testing/         for tests and demos: a real Kafka from its jars, Kafka's own tools, the embedded cluster's handle,
                     the pytest plugin, the tour
    commands/        the command line, a folder per noun; on disk next to kcoord/, installed as kcoord.commands

A layer imports only those named above it here (server imports api, api imports broker, and so on down to errors and
settings); import-linter holds it to that.
"""
