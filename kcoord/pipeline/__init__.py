"""The history of groups as tables, on Spark.

    schemas         the tables and what their columns mean; docs/tables.md is made of it
    decoding/       from log segments to Arrow: needs NumPy and PyArrow, not Spark
    sources/        the same as data sources of Spark: folders of segments, live clusters
    session         Spark, embedded or a cluster's, and why there is none
    tables          the folder of tables, as Parquet
    decode_job      a log to tables, and what became of each record
    following       a live cluster to tables as it goes on, each record once
    unread          what it is refused for good, and passes over
    follow_folder   the folder of such a job: whether it may be used, and by one only
    transforms/     tables that are made of the decoded ones: ownership, rebalances, lag; and what is found in them
    derive_job      these tables made and written, and what is found in them
    report/         the report, an HTML page
    report_job      what it shows, gathered from the tables
    watching        how far Spark has come
    interrupting    Ctrl-C and SIGTERM while Spark is there
    workers         whether anybody works on a job
    failing         what is wrong with a job, in one line
    submit          the command for spark-submit

All of it needs the extra `pipeline`.
"""
