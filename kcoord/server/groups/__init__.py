"""The asyncio driver of the group coordinator: it loads groups, appends their records and compacts their log."""
