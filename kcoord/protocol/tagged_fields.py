"""Tagged fields, which end each struct of a flexible version (KIP-482).

The check of bodies (validate) and the readers of schemas have code of their own, as they look at the tags, too; and
the proxy's fetch_scanner steps over tagged fields that come in several chunks.
"""

from kcoord.protocol.varint import read_uvarint


def skip_tagged_fields(buffer: bytes, position: int) -> int:
    """Returns the position behind the tagged fields of a struct, without a look at them.

    It may lie behind the end of the buffer, if the last field claims to. Raises IndexError where the buffer ends
    within a tag or a size, and BadVarint.
    """
    if buffer[position] == 0:
        return position + 1
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    return position
