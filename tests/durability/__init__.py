"""Nothing acknowledged is lost: writers, a ledger of what they were told, and an auditor who asks for it again.

ledger     what was acknowledged, and what may have happened
writers    8 threads that keep a server busy: group_writers, record_writers, topic_writers
auditor    asks a server that was started again for everything, and tells what is missing or older
serving    the server: a process that is killed, on a folder that stays
faulty     the same process with a disk that fails, tears or forgets, or with a fault of ours
rounds     start, be busy, kill, start again, audit
"""
