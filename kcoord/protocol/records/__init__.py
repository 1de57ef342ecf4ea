"""Record batches of format v2 and the records in them, with their compression."""
