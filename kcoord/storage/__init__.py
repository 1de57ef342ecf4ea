"""The data folder of a server: its topics, and the segments of their logs. Recovery at start, and compaction."""
