"""A connection as bytes, for the tasks that read from the cluster: they run in other processes, maybe elsewhere.

A Secret refuses to be pickled, so that none is written somewhere by accident. Here it is meant. The bytes are kept in
the data source's class, which Spark ships as code: unlike options, code is in no plan, no page of Spark's, no event log
and no checkpoint, whatever the cluster's settings say about redaction.

Certificates and keys are in it as text, so that workers need no files; only a token file must be where it is here.
"""

import io
import pickle
from dataclasses import replace
from typing import Any

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.connecting.oauth import TokenSource
from kcoord.client.secret import Secret


class Sealed:
    """Shows nothing of itself."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def open(self) -> Connection:
        connection = pickle.loads(self._content)  # noqa: S301 - our own bytes, by way of Spark, which pickles as well
        assert isinstance(connection, Connection)
        return connection

    def __repr__(self) -> str:
        return "a sealed connection"


def seal(connection: Connection) -> Sealed:
    """Without what is for librdkafka, which does not read logs here."""
    written = io.BytesIO()
    _Pickler(written).dump(replace(connection, librdkafka={}))
    return Sealed(written.getvalue())


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Secret):
            return Secret, (value.reveal(),)
        if isinstance(value, TokenSource):  # whose lock and token stay here
            return TokenSource, (value.fetch,)
        return NotImplemented
