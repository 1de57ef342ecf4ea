"""Derives tables from the decoded ones, and findings from these. Functions from frames to frames, nothing else.

history             records once and in their order; intervals from one record to another
event_types         the types of records of the newer kinds of groups, by their numbers
events              parses the records of the newer kinds of groups; names of topics
ownership_spans     who held which partition in each record
ownership           the table `ownership`; memberships
generation_log      who was in groups and what was assigned, record by record; the latest of it
filters             filters rows by group and time
period              the time that was read

rebalances/
generation_changes  what changed in classic groups
epoch_changes       what changed in consumer, share and streams groups
causes              why
moves               partitions that changed hands
pauses              how long nothing was committed
rebalances          the table `rebalances`, of these five
unstable            findings in rebalances: unstable groups, members that flap

lag/
log_growth          when the log of a partition grew
lag                 the table `lag`
stuck               findings in lag: partitions that never catch up, or do not move
timeline            findings in lag: how it went over time
"""
