"""The proxy: clients on one side, a real cluster on the other.

    a client ── client_side ── routes: what becomes of a frame ── judging: interceptors ──┐
                                                                                          │ upstream_side ── a broker
    a client ◄─ client_side ◄─ rewriting, node_endpoints, fetch_walk, api_versions ◄──────┘

exchange       the hooks of forwarding: what may stand between a client and a broker, and what is counted
routes         what becomes of a request of an API and version, and of its answer
judging        asks interceptors
owner          what the two sides ask of the proxy
client_side    the connection of a client: frames pass, are shown to interceptors, or wait
client_gone    what it writes to when the client has gone, until what that sent is decided
upstream_side  the connection to a broker that belongs to it: answers pass or are rewritten
rewriting      pure: answers with other addresses in them
node_endpoints pure: the same for the end of an answer, also if its beginning has been sent
fetch_walk     pure: where in a Fetch answer that passes this end begins
plain_answers  pure: whether an answer that has come whole has nothing to rewrite, as most
api_versions   pure: ApiVersions cut to what can be rewritten
addresses      pure: where each broker is upstream, and which port it has here
places         host and port
reasons        pure: why brokers could not be reached, each kind once
connecting     TLS, a login, and questions of our own to a broker
telling_versions
               what brokers speak, for clients that have not logged in
looking        a look of our own at the brokers, now and then
counting       nothing, unless somebody asks; counting_commits, metering, metrics_source: what Prometheus is told
setup          what a proxy starts with
listeners      where clients connect
proxy          clients, and the brokers that they mean, which come, go and move
main           the process

Interceptors, with maps of their own at their heads: hiding (with hidden_names, naming_apis, produce_names), guarding
(with guard_rules, guarded_apis, refusing), watching (with watched_group, watched_consumer_group), local/.
"""
