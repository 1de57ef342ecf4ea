"""From log segments to Arrow, whole batches at once; Spark is not needed for it.

segments        what segments there are, cut into ranges that can be read each on its own
scan            a range, piece by piece: its batches, their checksums, their records' plain bytes
transactions    how the transaction of a batch ended
locate          where in the plain bytes each record's key and value lie
arena           numbers and texts at many places of some bytes, read at once
fields          the fields of a layout (journal.layouts), of many records at once
records         records that are to be decoded, as columns
commits         commits, by NumPy
groups          all other records, one by one: they are few
rejected        what could not be decoded
decode          a range to tables: what the sources call
fetched         the same of what a broker sends of a live log
handed_out      the same of records that another client hands out, one by one
"""
