"""The server properties of a broker: small and quick, for tests; any of them can be overridden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listener for clients that a test's broker has in addition to the one named CLIENT."""

    protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The ports of a test's broker, and the address that it advertises to clients."""

    node: int
    bind: str
    host: str
    """The host by which the other brokers reach it."""
    client_port: int
    internal_port: int
    controller_port: int
    advertised: str
    """host:port for clients; that of a proxy, if there is one in front."""
    listeners: Mapping[str, Listener] = field(default_factory=dict)
    """Further listeners, by name."""

    @property
    def client_address(self) -> str:
        """The host:port at which the broker serves clients, without a proxy in front."""
        return f"{self.host}:{self.client_port}"

    @property
    def internal_address(self) -> str:
        """The host:port at which the broker serves other brokers."""
        return f"{self.host}:{self.internal_port}"

    @property
    def controller_address(self) -> str:
        """The host:port of the broker's controller."""
        return f"{self.host}:{self.controller_port}"


def server_properties(
    spec: BrokerSpec, specs: Sequence[BrokerSpec], *, log_dirs: str, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Returns the server properties of this broker, for KRaft and for quick tests; the overrides win. `specs` are all
    brokers of the cluster."""
    return {**_topology(spec, specs), "log.dirs": log_dirs, **_sizes(len(specs)), **overrides}


def to_text(properties: Mapping[str, str]) -> str:
    """Formats properties for a Java properties file. Kafka's keys need no escaping, values do."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in properties.items())


def to_environment(properties: Mapping[str, str]) -> dict[str, str]:
    """Converts properties to the variables of the image apache/kafka: `a.b` is KAFKA_A_B, `_` doubles, `-` triples."""
    escapes = str.maketrans({".": "_", "_": "__", "-": "___"})
    return {f"KAFKA_{key.translate(escapes).upper()}": value for key, value in properties.items()}


def _topology(spec: BrokerSpec, specs: Sequence[BrokerSpec]) -> dict[str, str]:
    voters = [f"{other.node}@{other.controller_address}" for other in specs]
    # The brokers talk over the listener INTERNAL, so a proxy in front of CLIENT sees clients only, and CLIENT can have
    # another security protocol without affecting the rest.
    more = spec.listeners
    listeners = {"CLIENT": spec.client_port, "INTERNAL": spec.internal_port, "CONTROLLER": spec.controller_port}
    protocols = dict.fromkeys(listeners, "PLAINTEXT") | {name: each.protocol for name, each in more.items()}
    listeners |= {name: each.port for name, each in more.items()}
    advertised = {"CLIENT": spec.advertised, "INTERNAL": spec.internal_address}
    advertised |= {name: f"{spec.host}:{each.port}" for name, each in more.items()}
    return {
        "process.roles": "broker,controller",
        "node.id": str(spec.node),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listeners": ",".join(f"{name}://{spec.bind}:{port}" for name, port in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{each}" for name, each in advertised.items()),
    }


def _sizes(brokers: int) -> dict[str, str]:
    replicas = str(min(brokers, 3))
    in_sync = "2" if brokers >= 3 else "1"
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        # One partition, since the first use of a group creates them all: 50 take seconds.
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker is fenced, and may come back, after this long; Kafka's default of 9 s is long for a test.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "log.index.size.max.bytes": "65536",
    }


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
