"""UUIDs as Kafka writes them: topic ids and cluster ids are base64 for URLs without padding (Kafka's class Uuid)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID


def format_uuid(content: bytes) -> str:
    """Formats the 16 bytes of an id, as Uuid.toString does."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """Parses an id, as Uuid.fromString does. Raises ValueError."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))
