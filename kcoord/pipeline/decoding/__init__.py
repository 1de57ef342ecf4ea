"""Decodes log segments to Arrow, whole batches at once; Spark is not needed for it.

segments           finds segments, and splits them into ranges that can be read independently
scan               reads a range in pieces: its batches, their checksums, their records decompressed
transactions       finds out how the transaction of a batch ended
locate             finds where each record's key and value lie in the decompressed bytes
byte_columns       reads numbers and texts at many positions of a byte buffer at once
fields             reads the fields of a schema (offsets_log.record_schemas) from many records at once
records            the records to decode, as columns
commits            decodes commits by NumPy
groups             decodes all other records one by one: they are few
rejected           the rows of what could not be decoded
decode             turns a range into tables: what the sources call
fetched            does the same for the fetch responses of a live log
consumed_messages  does the same for records that another client has consumed
row_filter         selects rows by group and time, and counts the others
"""
