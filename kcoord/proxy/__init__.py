"""The proxy forwards clients' requests to a real cluster, and answers from it back.

    client ── downstream_connection ── request_forwarder ── interceptor_chain ── upstream_writer ── broker
    client ◄─ downstream_connection ◄─────── rewriting: broker_addresses … ◄─────── upstream_connection

main                the process: event loop, logging, signals
setup               the settings that a proxy starts with
proxy               the registry of clients and brokers: accepts, connects, sweeps idle clients
listeners           the listening sockets: one per broker, or one for all of them by TLS server name (SNI)
connection_host     the protocols by which connections call the proxy
metrics, no_metrics, metrics_source
                    counters of forwarding, their no-op twin, and the samples that Prometheus scrapes

forwarding/         the path of a frame
    downstream_connection, upstream_connection
                    the two connections of one client
    request_forwarder
                    decides about each request of one client, with the help of:
    frame_scanner   pure: finds where frames begin in a byte stream, most of which passes unread
    in_flight       pure: the requests that wait for answers, and the order in which these leave
    upstream_writer buffers what is written until a broker is connected
    backpressure    pauses and resumes reading from the two connections
    routes          how a request of one API and version is handled, and how its answer is
    interceptors, interceptor_chain
                    the interceptor API, and running the interceptors on one request
    streamed_answer pure: an answer that is forwarded while it arrives, except its tail
rewriting/          pure: what brokers' answers are changed to
    broker_addresses
                    replaces the addresses of brokers in whole answers
    node_endpoints  replaces them in an answer's tagged fields, also after the rest of it has been sent
    fetch_scanner   finds where the tagged fields of a Fetch answer begin while it streams through
    passthrough     recognizes answers that need no rewriting
    api_versions    limits ApiVersions answers to what the proxy can forward
    addresses, endpoints
                    where each broker is upstream and which port it has here; host and port
brokers/            the proxy's own connections to brokers: metadata_refresher, api_versions_cache,
                    broker_connections, failures
guards/             interceptors that refuse: guarding (guard_rules, guarded_apis, refusing, subscriptions) and hiding
                    (hidden_names, naming_apis, produce_names); refusal_log; wiring puts them together
observing/          interceptors that only watch: group_observer (observed_group, observed_consumer_group) and
                    commit_counter
local/              groups coordinated by the proxy itself; it has its own map
"""
