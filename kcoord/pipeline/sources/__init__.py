"""Spark's Python Data Sources: rows are decoded in Python and cross the border to the JVM once.

segment_source       folders of segments
union_frame          rows of several tables in one frame, a column for each table
connectors           the two ways to read a live cluster: the Python source, or Spark's own Kafka connector
connector            reads by Spark's connector; connector_options converts a connection to its options
live_input           a live cluster as a log that tables are made of
live_source          the data source of a live cluster; live_stream reads it as a stream, live_partitions is what a
task
                     reads
live_plan            plans which logs of a cluster are read, and which offsets of each
live_log             reads ranges of logs to their ends
arrow_packing        packs rows of all tables into one frame, as Arrow's bytes
pickled_connection   a connection as bytes, for the tasks
request_fingerprint  what a stream was asked for, as its checkpoint stores it
"""
