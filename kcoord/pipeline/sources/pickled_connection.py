"""A connection as bytes, for the tasks that read from the cluster: they run in other processes, maybe on other
machines.

A Secret refuses to be pickled, so that none is written somewhere by accident. Here it is intended. The bytes are
stored in the data source's class, which Spark ships as code: unlike options, code is in no plan, no page of Spark's,
no event log and no checkpoint, whatever the cluster's settings for redaction are.

Certificates and keys are in it as text, so that workers need no files; only a token file must be at the same path
there.
"""

import io
import pickle
from dataclasses import replace
from typing import Any

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.connecting.oauth import TokenSource
from kcoord.client.secret import Secret


class PickledConnection:
    """The settings of a connection to a cluster, secrets included, as bytes that are shipped to Spark's tasks; its repr
    shows nothing of them."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def unpickle(self) -> Connection:
        """Returns the settings of the connection; it does not connect."""
        connection = pickle.loads(self._content)  # noqa: S301 - our own bytes, by way of Spark, which pickles as well
        assert isinstance(connection, Connection)
        return connection

    def __repr__(self) -> str:
        return "a sealed connection"


def pickle_connection(connection: Connection) -> PickledConnection:
    """Serializes the settings of a connection, secrets included, without those of librdkafka, which does not read logs
    here."""
    written = io.BytesIO()
    _Pickler(written).dump(replace(connection, librdkafka={}))
    return PickledConnection(written.getvalue())


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Secret):
            return Secret, (value.reveal(),)
        if isinstance(value, TokenSource):  # its lock and token cannot be shipped
            return TokenSource, (value.fetch,)
        return NotImplemented
