"""kcoord: a Kafka-compatible group coordinator, an embedded cluster, a proxy and an admin CLI. This page is the map.

The road of a request, and where each step is:

    bytes ─ server/connection ─ wire/frames ─ wire/codec ─ server/dispatch ─ api/*.to_request
                                                                │  a request: version-free
                                                   broker/* or groups/* decides: PURE
                                                                │  a reply: version-free; of groups also records
                                                                │  server/group_runtime: records ─► journal/group_log
    bytes ─ server/connection ─ wire/frames ─ wire/codec ─ server/dispatch

and through the proxy, where most of it is passed on as it is:

    bytes ─ upstream/client_side ─ interceptors: guards, watching, upstream/local ─► a server of its own, as above
                                        │  what passes
    bytes ◄─ addresses rewritten ─ upstream/upstream_side ◄─ a broker

    errors     Kafka's error codes
    settings   what can be set, under Kafka's names
    java_properties
               Java's properties files, as Java reads them
    tickets    the names of requests that wait
    wire/      bytes and kio's entities: frames, headers, what kio says of a version's fields (schema), and made from it
               the check before kio reads (check) and the writers (write); codec; answers that many share but for one
               field (splice); record batches (batches, records, survey, compression, varint); consumers' assignments
               (consumer_protocol); a blocking client (client) with TLS and logins (security says which; tls,
               sasl, scram), and why it could not connect (connect_errors; listener_probe asks what a port speaks);
               how it asks (asking): by kio (kio_asking) or, to start sooner, by layouts of our own, as text (layouts),
               that requests are written by (layout_writers) and responses read (layout_readers)
    security/  what guards a listener, of a server and of a proxy: users and their credentials, the server's half of a
               login, TLS, principals; and the rules by which they may do things. No asyncio
    broker/    the embedded cluster: topics and their settings (offsets_topic: those of the one
               that groups live in), partition logs (admission is what they ask of a batch,
               store where they are kept, times how to find records by them, failed_log is one that cannot be used),
               producers, fetch sessions, long polls; slices are work that lets others have their turn.
               Reads no clock, no randomness, no environment
    groups/    the group coordinator, pure: see groups/__init__ for its own map. Beside broker/, and knows nothing of it
    journal/   what is to be found again. Topics: the data folder (data_dir), what is in it (finding, topics_file,
               broker_metadata), a log's own folder (log_folder, checkpoints, producer_snapshot), where a log ends
               (recovery); files with names (segment_files, by way of system) and without (file_store). Groups: their
               records in `__consumer_offsets`, all that there are as data (layouts, layout_codec), what we write
               (encoding, in batches: pending, usual_commits) and read (decoding, offset_runs), the journal itself
               (group_log), its compaction (overtaken knows what need not be read, compacting decides, compaction does
               it); segments told (dump)
    api/       the table of what is served, and one file per Kafka API: entity to request
    metrics/   what is counted, and how it is told: a catalogue of all there is, counts that cost next to nothing, an
               HTTP server for Prometheus and for health
    server/    asyncio, sockets, clocks, limits: what a cluster starts with (setup), the cluster at work and its alarms
               (cluster_runtime), what has arrived read before deadlines are judged (draining),
               listeners (runtime), who is accepted (accepting, connection_limits; descriptors says what has room,
               preloading imports before they run short), comes in (entrance, gate) and may do what (permissions,
               authorizing), what is done now and then (chores), connection and what it asks of its owner, whose turn it
               is (turns), requests that wait for their answers (parked) or are decided in slices (slicing), dispatch by
               routes that are made once and remember what is asked again and again (routes); what stands is not
               decided (standing, on a standing_connection); the coordinators at work (group_runtime, on a
               group_journal, that group_reading reads), compaction in the background (compactor), what is counted
               (measured, census, metrics_source), lines of the log that clients could cause without end (quiet_log),
               the clock, memory that is kept and given back, process (main)
    assignors/ who gets which partitions, as consumers plan it: range, and the sticky one. Pure
    admin/     groups and offsets of live clusters: what is told of them (model; offsets in columns: commits) and can be
               asked (live), over our own connections (wire/) or through librdkafka (librdkafka/), and again if it was
               refused for now (settling); ended in the middle of a change (stopping); what is waited for (waiting);
               how to reach a cluster (connecting/); enough of a record to recognise it in another log (record_marks);
               one look at groups (looking, read by reading; time_cache remembers the times of records), lag added up
               (totals), change between looks (pace, watching), who keeps up and who will (outlook); what is wrong with
               groups (doctor/); changing offsets, with plans and undo, and carrying them elsewhere (offsets/);
               deleting, removing. Of what is above it here it knows assignors/, wire/, java_properties and errors alone
    upstream/  the proxy: see upstream/__init__ for its own map
    pipeline/  the history of groups as tables, on Spark, from log segments and live clusters: see pipeline/__init__ for
               its own map. Needs the extra `pipeline`; beside testing/, and neither knows of the other
    testing/   for tests and demos: a real Kafka from its jars, Kafka's own tools, the embedded cluster's handle, the
               pytest plugin
    commands/  the command line; on disk beside kcoord/, installed as kcoord.commands

A layer imports only those named above it here (server imports api, api imports broker, and so on down to errors and
settings); import-linter holds it to that.
"""
