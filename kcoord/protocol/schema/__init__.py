"""Schemas as data, for messages that kio imports too slowly and for records that kio does not know.

notation           the text in which schemas are declared, and its parser
messages           the schemas of the APIs by which a cluster is read
message_readers    readers of messages; the schemas of records are beside their readers, in offsets_log
writers            writers of both
"""
