from kcoord.testing.node import PORTS, choose_broker_specs
from kcoord.testing.properties import BrokerSpec, server_properties, to_environment, to_text


def properties_of(brokers: int, **overrides: str) -> dict[str, str]:
    specs = choose_broker_specs(brokers, {})
    return server_properties(specs[0], specs, log_dirs="data", overrides=overrides)


def test_one_broker_keeps_one_replica_of_everything() -> None:
    factors = {value for key, value in properties_of(1).items() if key.endswith((".replication.factor", ".min.isr"))}
    assert factors == {"1"}


def test_three_brokers_keep_three_replicas_of_which_two_are_in_sync() -> None:
    properties = properties_of(3)
    assert properties["offsets.topic.replication.factor"] == "3"
    assert properties["transaction.state.log.min.isr"] == "2"
    assert properties["controller.quorum.voters"].count("@127.0.0.1:") == 3


def test_a_chosen_property_wins() -> None:
    assert properties_of(1)["node.id"] == "1"
    assert properties_of(1, **{"node.id": "7"})["node.id"] == "7"


def test_a_proxy_is_advertised_to_clients_and_not_to_brokers() -> None:
    [spec] = choose_broker_specs(1, {1: "127.0.0.1:9999"})
    properties = server_properties(spec, [spec], log_dirs="data", overrides={})
    assert properties["advertised.listeners"] == f"CLIENT://127.0.0.1:9999,INTERNAL://127.0.0.1:{spec.internal_port}"
    assert spec.client_address == f"127.0.0.1:{spec.client_port}"


def test_more_listeners_stand_beside_that_of_clients_and_are_advertised() -> None:
    [spec] = choose_broker_specs(1, {}, {"SECURE": "SASL_SSL"})
    properties = server_properties(spec, [spec], log_dirs="data", overrides={})
    door = f"SECURE://127.0.0.1:{spec.listeners['SECURE'].port}"
    assert properties["listeners"].split(",")[-1] == door
    assert properties["advertised.listeners"].split(",")[-1] == door
    assert properties["listener.security.protocol.map"] == (
        "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"
    )


def test_ports_are_different_and_out_of_the_way_of_outgoing_connections() -> None:
    ports = [port for spec in choose_broker_specs(3, {}) for port in ports_of(spec)]
    assert len(set(ports)) == 9
    assert all(port in PORTS for port in ports)


def test_a_property_file_escapes_what_java_would_eat() -> None:
    assert to_text({"jaas": 'user="a\\b"\nmore'}) == 'jaas=user="a\\\\b"\\nmore\n'


def test_the_image_gets_properties_as_variables() -> None:
    assert to_environment({"group.max.size": "4", "a_b.c-d": "x"}) == {
        "KAFKA_GROUP_MAX_SIZE": "4",
        "KAFKA_A__B_C___D": "x",
    }


def ports_of(spec: BrokerSpec) -> list[int]:
    return [spec.client_port, spec.internal_port, spec.controller_port]
