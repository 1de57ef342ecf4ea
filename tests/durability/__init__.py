"""Nothing acknowledged is lost: writers, a ledger of what was acknowledged to them, and an auditor who reads it again.

In support/:

ledger     what was acknowledged, and what may have happened
writers    8 threads that keep a server busy: group_writers, record_writers, topic_writers
auditor    reads everything from a server that was restarted, and reports what is missing or older
serving    the server: a process that is killed, on a folder that stays
faulty     the same process with a disk that fails, tears or forgets, or with a deliberate fault in kcoord
rounds     start, be busy, kill, start again, audit
"""
