"""What brokers' responses are changed to before clients get them: broker addresses and API versions. All pure."""
