"""What each strategy would have cost a group over its recorded history. Pure: a log or a trace may feed it.

recording   what was recorded of a group: its members in each generation, and how long rebalances took
changes     what the strategies have no influence on: each change of members, subscriptions or partition counts
replay      replays the changes through a strategy, and adds up what that cost; and what the recorded one cost
absences    members that went and came back, and the changes without them: static members, longer session timeouts
comparing   all of this for one group
latest      what each strategy would make of one generation's assignment
"""
