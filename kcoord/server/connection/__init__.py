"""One client's connection: reading, deciding in rounds of the event loop, pending requests, writing."""
