"""The fast path: what is remembered of repeated requests, so that they need not be decoded, decided or encoded again.

Theory of operation. The coordinator decides every request that comes to it, whatever is remembered of it here. Clients
repeat themselves, and each cache skips some of the steps 3 to 8 of the road (kcoord/__init__.py):

    bytes ─ RequestTemplate: no decoding ─ prevalidated request: no checks ─ cached response: no encoding
            └────────────── CachedFrame: all three, in CachingConnection, before the bytes are made a frame ──────────┘

No cache is told of changes. Each is validated when it is used: what its answer depends on is compared, and if anything
differs, the request is decided on the ordinary path, which may cache it again. So nothing can be forgotten when a group
changes; but a check ("fence") that is added to the ordinary path must be added to what is compared here, too.
fences.md has a row for each check of the ordinary path, which says what covers it here; a test compares it with the
source (tests/server/fast_path/test_fast_path_fences.py) and fails if a check has no row.

cache                      | what it remembers               | what invalidates it              | where that is checked
---------------------------+---------------------------------+----------------------------------+----------------------
request_template           | of the last request of an API   | another byte but for correlation | RequestTemplate.match
RequestTemplate            | and version: the frame, the     | id and variable fields; replaced |
                           | request, its variable fields    | by the next that is decoded      |
client_session             | the last heartbeat or commit    | another reply than the very same | ClientSession
ClientSession              | reply of a route, encoded       | object                           | .encode_response
groups/classic             | that a member's heartbeat       | another state than Stable or     | PrevalidatedHeartbeat
PrevalidatedHeartbeat      | succeeded                       | generation; the member removed   | .heartbeat
                           |                                 | or replaced; the group unloaded  |
groups/classic             | that a commit was accepted,     | the same; a topic deleted or     | PrevalidatedCommit
PrevalidatedCommit         | all of it                       | recreated                        | .commit
groups/offsets             | a member's last commit that was | other partitions or metadata; a  | Coordinator
CommitTemplate             | accepted, and its reply         | topic deleted; a fenced member   | ._matching_template
groups/classic             | that a member's join was        | another state than Preparing; a  | PrevalidatedJoin
PrevalidatedJoin           | accepted                        | parked join; the last join; a    | .apply
                           |                                 | full phase; the member removed;  |
                           |                                 | other protocols                  |
groups/classic             | that a member's sync was        | another generation or protocol;  | PrevalidatedSync
PrevalidatedSync           | accepted                        | the leader's; a parked sync; the | .apply
                           |                                 | member removed                   |
response_cache CachedFrame | a template's bytes, and the     | other bytes; the prevalidated    | CachedHeartbeatFrame
(heartbeat, commit, join   | prevalidated request; of        | request refuses; the client      | .answer and its like;
or sync)                   | heartbeats and commits also the | pipelines; a request is pending; | ClientSession
                           | encoded response                | the connection is being written  | .saw_pipelining;
                           |                                 | to                               | CachingConnection
                           |                                 |                                  | .data_received

The prevalidated requests and CommitTemplate are in groups/, because they are pure and read what groups are made of.
Where rules may change, or each request is logged, only templates are used (ClusterRuntime.caching_allowed): a request
that is made from a template is decided like any other.
"""
