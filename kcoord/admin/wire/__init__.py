"""A live cluster over our own connections: many groups in one request, brokers side by side.

cluster           the whole of it, as admin.live wants it
brokers           connections, and asking many brokers at once; apis are what can be asked
coordinators      which broker has which group
groups            list and describe; descriptions are what each type's API says of a group
offsets, changes  what groups committed, and changing groups
fetching          logs as they are, batch by batch, for whoever reads all of them
logs, times       where logs start and end, what time records have; record_times reads what a fetch brought
"""
