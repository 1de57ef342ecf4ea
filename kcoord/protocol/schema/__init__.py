"""Schemas as data, for messages that kio imports too slowly and for records that kio does not know.

notation           the text in which schemas are declared, and its parser
messages/          the schemas of the APIs by which groups and their cluster are read and changed
readers            readers of messages and records
message_readers    the form in which messages are read: rows, and their errors (that of records is in offsets_log)
columns            arrays of rows that are read as columns
writers            writers of messages and records
"""
