"""kcoord: a Kafka-compatible group coordinator and embedded cluster. This page is the map.

The road of a request, and where each step is:

    bytes ─ server/connection ─ wire/frames ─ wire/codec ─ server/dispatch ─ api/*.to_request
                                                                │  a request: version-free
                                                   broker/* or groups/* decides: PURE
                                                                │  a reply: version-free; of groups also records
                                                                │  server/group_runtime: records ─► journal, then
    bytes ─ server/connection ─ wire/frames ─ wire/codec ─ server/dispatch

    errors     Kafka's error codes
    settings   what can be set, under Kafka's names
    tickets    the names of requests that wait
    wire/      bytes and kio's entities: frames, headers, what kio says of a version's fields (schema), and made from it
               the check before kio reads (check) and the writers (write); codec; record batches (batches, records,
               survey, compression, varint); consumers' assignments (consumer_protocol); a blocking client (client)
    broker/    the embedded cluster: topics and their settings, partition logs (admission is what they ask of a batch,
               store where their bytes are), producers, fetch sessions, long polls. Reads no clock, no randomness, no
               environment
    groups/    the group coordinator, pure: see groups/__init__ for its own map. Beside broker/, and knows nothing of it
    journal/   where records are kept: what the coordinator asks of a journal (journal), one for tests (memory), and the
               files of topics (file_store)
    api/       the table of what is served, and one file per Kafka API: entity to request
    server/    asyncio, sockets, clocks, limits: what a cluster starts with (setup), listener and alarms
               (runtime), what is done now and then (chores), connection, whose turn it is (turns), dispatch by routes
               that are made once and remember what is asked again and again (routes), the coordinators at work
               (group_runtime), the clock, memory that is given back, process (main)
    testing/   for tests and demos: a real Kafka from its jars, Kafka's own tools, the embedded cluster's handle, the
               pytest plugin
    commands/  the command line; on disk beside kcoord/, installed as kcoord.commands

A layer imports only those named above it here (server imports api, api imports broker, and so on down to errors and
settings); import-linter holds it to that.
"""
