"""kcoord's own connections to Kafka brokers: blocking, with TLS and logins."""
