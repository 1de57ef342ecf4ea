"""The admin client over our own connections: many groups in one request, brokers in parallel.

cluster           implements admin.cluster_client
brokers           connections, and requests to many brokers at once; apis are the requests
coordinators      which broker coordinates each group
groups            list and describe; descriptions parse what each type's API returns of a group
offsets, changes  committed offsets, and changes of groups
fetching          logs as they are, batch by batch, for readers of whole logs
logs, times       bounds of logs, times of records; record_times scans what a fetch returned
"""
