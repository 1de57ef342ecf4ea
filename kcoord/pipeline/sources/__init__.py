"""Spark's Python Data Sources: rows cross the border to the JVM once, and decoded.

segment_source    folders of segments
wide              rows of several tables side by side in one frame
connectors        the ways to read a live cluster: the Python source, or Spark's own Kafka connector
connector         the latter; connector_options is what it is told of a connection
live_input        a live cluster as a log that tables are made of
live_source       the same as a data source; live_stream is what it is as a stream, live_partitions what a task reads
live_plan         which logs of a cluster are read, from where to where
live_log          ranges of logs, read to their ends
packed            rows of all tables in one frame, as Arrow's bytes
sealed            a connection as bytes, for the tasks
"""
