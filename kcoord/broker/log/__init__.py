"""The log of one partition: segments, look-ups by time, idempotent producers, validation of batches."""
