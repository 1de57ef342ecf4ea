"""kcoord: a Kafka-compatible group coordinator, an embedded cluster, a proxy and an admin CLI. This page is the map.

The road of a request through `kcoord serve`, function by function:

     1  server/listener/acceptor            Acceptor._accept: a connection, if the limits allow it; over TLS or with a
                                            login by secure_listener and pre_auth_connection first
     2  server/fast_path/caching_connection CachingConnection.data_received: bytes come. A frame that is in the cache is
                                            answered from it, and steps 3 to 8 are skipped:
                                            fast_path/__init__ has the table of all caches
     3  server/connection/connection        Connection._accept_chunk: protocol/frames FrameSplitter makes frames of it
     4  server/connection/event_round       EventRound.defer_decide, EventRound._run: what one iteration of the loop
                                            brought is decided, flushed and sent, in this order
     5  server/cluster_runtime              ClusterRuntime.decide, with a ticket that names the request
     6  server/dispatch/dispatch            Dispatch.decide: the route of API and version (dispatch/routes Route.read);
                                            protocol/codec checks the body (validate) before kio reads it;
                                            api/<name> to_request makes a request without a version;
                                            authorization/authorizing_dispatch checks the rules, if there are any
     7  groups/coordinator                  Coordinator.join, sync, heartbeat, commit …: PURE. Returns Effects:
                                            replies and records
        broker/*                            the other APIs: PURE too. Produce and look-ups by time go on in slices
                                            (connection/sliced_requests SlicedRequests)
     8  server/groups/group_runtime         GroupRuntime.append_effects: records go to offsets_log/group_log
                                            GroupLog.append, and from there to storage/segment_files
     9  server/cluster_runtime              ClusterRuntime.flush: no answer leaves before its records are written (D4);
                                            a failure unloads the groups (GroupRuntime._unload), which are read again
    10  server/dispatch/routes              Route.encode_response; server/connection/connection Connection._send
        server/connection/pending_requests  PendingRequests.park: a join, sync or fetch that waits;
                                            PendingRequests.answer, when another request or time brings its reply

The four files in which all timing is: connection/event_round (which work one iteration of the loop does),
groups/deadlines (instants, as data: Deadlines.next), cluster_runtime (ClusterRuntime._arm sets one timer,
ClusterRuntime._tick fires it) and connection/draining (DeferredExpiry: after a pause, what has arrived is read before a
session expires). server/maintenance does what is due now and then.

Through `kcoord proxy`:

     1  proxy/forwarding/downstream_connection  DownstreamConnection.data_received: bytes come
     2  proxy/forwarding/request_forwarder      RequestForwarder.forward: requests pass as they come, unless
     3  proxy/forwarding/interceptor_chain      intercept shows them to guards, observers and proxy/local, which may
                                                refuse, change or handle them; local's take the road above from 5 on
     4  proxy/forwarding/upstream_connection    UpstreamConnection.data_received: answers pass as they come, but for
                                                addresses (proxy/rewriting/broker_addresses find_addresses)

    folder or file   what is in it
    errors           Kafka's error codes
    api_keys         the keys of Kafka's APIs, and their names
    endpoints        the host and port of a listener, as text
    exceptions       the four bases of our exceptions: corrupt data, remote failure, local failure, invalid input
    settings         what can be set, under Kafka's names
    java_hashing     the hashes of Java's strings and ids, and the order in which a HashMap has its keys
    markup           HTML and SVG elements that keep text apart from markup
    java_properties  Java's properties files, as Java reads them
    tickets          the names of requests that wait for their answers
    protocol/        bytes and kio's entities: frames, headers, the check before kio reads (validate), writers (encode),
                     codec, responses that many members share but for one field (response_template). schema/ has
                     the notation of schemas, what reads and writes by it, and the messages that kio brings too
                     slowly; records/ the record batches
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
    assignors/       which member gets which partitions: Kafka's assignors, exactly, and what each makes of a group.
                     Pure; assignors/__init__ has its map
    admin/           groups and offsets of live clusters, over kcoord's own connections (wire/) or through librdkafka
                     (librdkafka/): how to reach a cluster (connecting/), snapshots and lag (groups/), what is wrong
                     (doctor/), changing offsets with plans and undo (offsets/)
    proxy/           the proxy: see proxy/__init__ for its own map
    pipeline/        the history of groups as tables, on Spark, from log segments and live clusters: see
                     pipeline/__init__ for its own map. Needs the extra `pipeline`; independent of testing/
    testing/         for tests and demos: a real Kafka from its jars, Kafka's own tools, the embedded cluster's handle,
                     the pytest plugin, the tour
    commands/        the command line, a folder per noun; on disk next to kcoord/, installed as kcoord.commands

A layer imports only those named above it here (server imports api, api imports broker, and so on down to errors,
exceptions and settings); import-linter holds it to that.
"""
