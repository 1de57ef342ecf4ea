"""A live cluster through librdkafka (confluent-kafka): for logins that only it knows, and without what it cannot do."""
