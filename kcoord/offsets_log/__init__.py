"""The records of groups in `__consumer_offsets`: their schemas, how they are written, read and dumped."""
