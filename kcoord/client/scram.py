"""SCRAM (RFC 5802, RFC 7677): the four messages and the proofs, for both sides. No I/O and no randomness.

client-first   n,,n=alice,r=<client nonce>
server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
client-final   c=biws,r=<both nonces>,p=<proof that the client knows the password>
server-final   v=<proof that the server knows it, too>   or   e=<error>
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field, replace
from typing import Final, Self

from kcoord.exceptions import RemoteFailure

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 10_000_000
"""A server may not make the client compute for ever; Kafka's own limit for its users is 16384."""

_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_BASE64: Final = r"[A-Za-z0-9/+=]+"
_EXTENSIONS: Final = r"[A-Za-z]+=[^,\0]+(?:,[A-Za-z]+=[^,\0]+)*"
_CLIENT_FIRST: Final = re.compile(rf"n,(?:a=({_NAME}))?,n=({_NAME}),r=({_PRINTABLE})(?:,({_EXTENSIONS}))?")
_CLIENT_FINAL: Final = re.compile(rf"(c=({_BASE64}),r=({_PRINTABLE})(?:,{_EXTENSIONS})?),p=({_BASE64})")


class BadScram(RemoteFailure, ValueError):
    """An error: a SCRAM message does not follow RFC 5802, or its proof is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """The first message of a SCRAM login, from the client: its user name and its nonce."""

    username: str
    nonce: str
    extensions: str = ""
    """Kafka's extension: `tokenauth=true` for delegation tokens (KIP-48)."""
    authorization: str = ""
    """The authorization id, as whom the client wants to act; empty means the user itself."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the text of a client's first SCRAM message. A client that demands channel binding is rejected with
        BadScram: none is offered here.
        """
        found = _CLIENT_FIRST.fullmatch(text)
        if not found:
            raise BadScram("the client's first message is malformed")
        authorization, username, nonce, extensions = found.groups(default="")
        return cls(
            username=_unescaped(username), nonce=nonce, extensions=extensions, authorization=_unescaped(authorization)
        )

    @property
    def header(self) -> str:
        """The GS2 header of the client's first SCRAM message: channel binding and authorization id. The client repeats
        it in its last message.
        """
        return f"n,a={_escaped(self.authorization)}," if self.authorization else "n,,"

    @property
    def bare(self) -> str:
        """The message without its GS2 header, which is the part that the proofs cover (RFC 5802:
        client-first-message-bare).
        """
        extensions = f",{self.extensions}" if self.extensions else ""
        return f"n={_escaped(self.username)},r={self.nonce}{extensions}"

    def text(self) -> str:
        """Returns the text of the SCRAM message, as it is sent."""
        return self.header + self.bare


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    """The server's challenge in a SCRAM login: the nonce of both sides, and the salt and iterations of the
    credential.
    """

    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the text of a server's first SCRAM message. Raises BadScram."""
        found = re.fullmatch(r"(?:m=[^,]*,)?r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9/+=]+),i=([0-9]{1,9})(?:,.*)?", text)
        if not found:
            raise BadScram("the server's first message is malformed")
        return cls(nonce=found[1], salt=_decoded(found[2]), iterations=int(found[3]))

    def text(self) -> str:
        """Returns the text of the SCRAM message, as it is sent."""
        return f"r={self.nonce},s={b64encode(self.salt).decode()},i={self.iterations}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    """The last message of a SCRAM login from the client: the proof that it knows the password."""

    header: str
    """The GS2 header of the client's first message."""
    nonce: str
    proof: bytes
    without_proof: str
    """All of its text but the proof, which covers it."""

    @classmethod
    def of(cls, first: ClientFirst, nonce: str) -> Self:
        """Makes the client's last message without its proof, which is computed over this text."""
        channel = b64encode(first.header.encode()).decode()
        return cls(header=first.header, nonce=nonce, proof=b"", without_proof=f"c={channel},r={nonce}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the text of a client's last SCRAM message. Raises BadScram."""
        found = _CLIENT_FINAL.fullmatch(text)
        if not found:
            raise BadScram("the client's last message is malformed")
        without_proof, channel, nonce, proof = found.groups()
        header = _decoded(channel).decode(errors="replace")
        return cls(header=header, nonce=nonce, proof=_decoded(proof), without_proof=without_proof)

    def text(self) -> str:
        """Returns the text of the SCRAM message, as it is sent."""
        return f"{self.without_proof},p={b64encode(self.proof).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFinal:
    """The last message of a SCRAM login: the server's signature, or None and an error if the login has failed."""

    signature: bytes | None
    error: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses the text of a server's last SCRAM message. Raises BadScram."""
        if found := re.fullmatch(r"v=([A-Za-z0-9/+=]+)(?:,.*)?", text):
            return cls(signature=_decoded(found[1]))
        if found := re.fullmatch(r"e=([^,]*)(?:,.*)?", text):
            return cls(signature=None, error=found[1])
        raise BadScram("the server's last message is malformed")

    def text(self) -> str:
        """Returns the text of the SCRAM message, as it is sent."""
        return f"e={self.error}" if self.signature is None else f"v={b64encode(self.signature).decode()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The three SCRAM keys (ClientKey, StoredKey, ServerKey) that are derived from a salted password. A server stores
    `stored` and `server`; a client computes all three.
    """

    client: bytes = field(repr=False)
    stored: bytes = field(repr=False)
    server: bytes = field(repr=False)


def keys(mechanism: str, password: str, salt: bytes, iterations: int) -> Keys:
    """Derives the SCRAM keys from a password, as RFC 5802 does but for SASLprep."""
    name = HASHES[mechanism]
    # Kafka leaves out the RFC's SASLprep (ScramFormatter.normalize).
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client = hmac.digest(salted, b"Client Key", name)
    stored = hashlib.new(name, client).digest()
    return Keys(client=client, stored=stored, server=hmac.digest(salted, b"Server Key", name))


def auth_message(first: ClientFirst, server_first: str, final_without_proof: str) -> bytes:
    """Returns the AuthMessage of RFC 5802: the text of the exchange so far, over which both proofs are computed."""
    return f"{first.bare},{server_first},{final_without_proof}".encode()


def client_proof(mechanism: str, client_keys: Keys, conversation: bytes) -> bytes:
    """Returns the ClientProof of RFC 5802 over a `conversation`, which is an `auth_message`."""
    signature = hmac.digest(client_keys.stored, conversation, HASHES[mechanism])
    return bytes(a ^ b for a, b in zip(client_keys.client, signature, strict=True))


def server_signature(mechanism: str, server_key: bytes, conversation: bytes) -> bytes:
    """Returns the ServerSignature of RFC 5802 over a `conversation`, which is an `auth_message`."""
    return hmac.digest(server_key, conversation, HASHES[mechanism])


def answer_challenge(mechanism: str, first: ClientFirst, password: str, server_first: str) -> tuple[ClientFinal, bytes]:
    """Answers the server's challenge in a SCRAM login. Returns the client's last message, and the signature that only a
    server that knows the password can return. Raises BadScram.
    """
    challenge = ServerFirst.parse(server_first)
    if not challenge.nonce.startswith(first.nonce) or challenge.nonce == first.nonce:
        raise BadScram("the server's nonce does not continue ours")
    if not FEWEST_ITERATIONS <= challenge.iterations <= MOST_ITERATIONS:
        raise BadScram(f"{challenge.iterations} iterations, where {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are allowed")
    client_keys = keys(mechanism, password, challenge.salt, challenge.iterations)
    unproved = ClientFinal.of(first, challenge.nonce)
    conversation = auth_message(first, server_first, unproved.without_proof)
    final = replace(unproved, proof=client_proof(mechanism, client_keys, conversation))
    return final, server_signature(mechanism, client_keys.server, conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A SCRAM credential: what a server stores of a password, enough to verify a client's proof and to prove that it
    knows the password too.
    """

    salt: bytes
    iterations: int
    stored: bytes = field(repr=False)
    server: bytes = field(repr=False)

    @classmethod
    def of(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> Self:
        """Derives the credential from a password."""
        made = keys(mechanism, password, salt, iterations)
        return cls(salt=salt, iterations=iterations, stored=made.stored, server=made.server)


def verify_proof(
    mechanism: str, credential: Credential, first: ClientFirst, challenge: ServerFirst, final: ClientFinal
) -> ServerFinal | None:
    """Verifies the client's proof in a SCRAM login. Returns the server's last message if the client has proved that it
    knows the password, or None.
    """
    conversation = auth_message(first, challenge.text(), final.without_proof)
    signature = hmac.digest(credential.stored, conversation, HASHES[mechanism])
    if len(final.proof) != len(signature):
        return None
    client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
    is_known = hmac.compare_digest(hashlib.new(HASHES[mechanism], client_key).digest(), credential.stored)
    if not is_known or final.nonce != challenge.nonce or final.header != first.header:
        return None
    return ServerFinal(signature=server_signature(mechanism, credential.server, conversation))


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise BadScram("a field that is not base64") from None
