"""The admin client through librdkafka (confluent-kafka), for logins that only it supports, and with its limitations."""
