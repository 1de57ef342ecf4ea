"""Changing what groups have committed, and carrying it elsewhere.

selecting         which partitions are meant
resetting         where each target leads: pure
planning          a plan from a look at the world; plans, plan_files
checking          whether the world is still as a plan found it: pure
applying          doing a plan
undoing           taking it back
exporting, importing, diffing   offsets as files (offset_lines); documents are files that people keep
marking           the records that offsets lie between, read from a cluster
comparing, risks  whether an offset means the same record in another log, and what is refused if not
world             groups, topics and logs at one moment
"""
