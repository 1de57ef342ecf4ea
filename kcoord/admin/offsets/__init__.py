"""Changes of committed offsets, and their transfer to other clusters.

selecting         which partitions are selected
resetting         the target offset of each partition: pure
planning          makes a plan from the current state of the cluster; plans is its data
checking          whether the cluster is still as a plan found it: pure
applying          applies a plan
marking           reads the records next to committed offsets from a cluster
comparing, risks  whether an offset means the same record in another log, and what is refused if not
diffing           differences between two lists of offsets: pure
cluster_state     groups, topics and logs at one moment
files/            exports, imports, plan files and undo files
"""
