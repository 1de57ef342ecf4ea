"""The log of one partition: segments, lookups by time, idempotent producers, validation of batches."""
