"""Tables that are made of the decoded ones, and what is found in them. Functions from frames to frames, nothing else.

history             records once and in their order; what lasted from one to another
events              the records of the newer kinds of groups, read; names of topics
holding             who held which partition in each record
ownership           the table `ownership`; memberships
generation_changes  what changed in classic groups
epoch_changes       what changed in consumer, share and streams groups
causes              why
shifts              partitions that changed hands
pauses              how long nothing was committed
rebalances          the table `rebalances`, of these five
log_growth          when the log of a partition grew
lag                 the table `lag`
restless            found in rebalances: restless groups, members that flap
behind              found in lag: who never catches up, what stands still
timeline            found in lag: how it went over time
filters             some groups, some time
period              the time that was read
"""
