"""The history of groups as tables, on Spark.

    schemas            the tables and what their columns mean; docs/tables.md is generated from it
    decoding/          decodes log segments to Arrow: needs NumPy and PyArrow, not Spark
    sources/           Spark data sources for it: folders of segments, live clusters
    session            starts Spark, embedded or on a cluster, or explains why it cannot start
    tables             the folder of tables, as Parquet
    decode_job         writes the tables of a log, and accounts for every record
    following          streams a live cluster into the tables, each record once
    unreadable_topics  warns of the topics that such a stream may not read
    follow_folder      checks and locks the folder of such a stream
    transforms/        derives tables from the decoded ones: ownership, rebalances, lag; and findings from these
    derive_job         runs these transforms and writes their tables
    recordings/        what the tables recorded of groups, for kcoord.assignors.replaying
    replay_job         reads it for `kcoord assign replay`
    report/            the report, an HTML page
    report_job         collects the facts of the report from the tables
    progress           samples how far Spark has come
    interrupting       handles Ctrl-C and SIGTERM while Spark runs
    executor_watch     reports a job that waits for executors
    errors             translates Spark's exceptions to one line
    submit             the entry point for spark-submit

All of it needs the extra `pipeline`.
"""
