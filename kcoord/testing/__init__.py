"""A real Kafka and an embedded kcoord for tests and demos: as pytest fixtures, or as plain context managers.

    def test_my_consumer(kcoord_cluster):               # `kcoord serve`, up in a moment
        consume(kcoord_cluster.bootstrap)

    def test_against_kafka(kafka_cluster, java_tools):  # Apache Kafka 4.3.1, shared by the whole session
        java_tools.run("topics", "--bootstrap-server", kafka_cluster.bootstrap, "--list")

    with KafkaCluster(brokers=3, properties={"group.max.size": "4"}) as kafka:
        kafka.kill(2)
        kafka.restart(2)

| file       | contains                                                           |
|------------|--------------------------------------------------------------------|
| plugin     | the pytest fixtures                                                |
| embedded   | `EmbeddedCluster`: `kcoord serve` as a subprocess                  |
| proxy      | `ProxyProcess`: `kcoord proxy` as a subprocess                     |
| command    | `CommandProcess`: what these two have in common                    |
| tools      | `JavaTools`: Kafka's own tools and clients by class name           |
| choice     | which real Kafka the environment asks for                          |
| cluster    | what every real Kafka can do; and a cluster that already runs      |
| kafka      | `KafkaCluster`: brokers from Kafka's jars                          |
| containers | `DockerCluster`: brokers from the image apache/kafka               |
| node       | one broker process                                                 |
| properties | the server properties of a broker                                  |
| jars       | resolves Kafka's jars by Maven: `python -m kcoord.testing.jars`    |
| jvm/       | Java and Maven, the class archive, the user's cache folder         |
| process    | child processes that end with their parent                         |
| errors     | what can go wrong before a test has begun                          |
| tour/      | the tour that `kcoord demo` plays; tour_client is its Kafka client |

| variable                | means                                                                        |
|-------------------------|------------------------------------------------------------------------------|
| KCOORD_TEST_KAFKA       | `jars` (the default) or `docker`                                             |
| KCOORD_TEST_BOOTSTRAP   | host:port,… of a cluster that already runs                                   |
| KCOORD_TEST_NO_KAFKA=1  | skip the tests against a real Kafka, with a notice                           |
| KCOORD_TEST_KEEP=1      | do not delete the brokers' folders: properties, logs, data                   |
| XDG_CACHE_HOME          | where the jars are cached (under kcoord/kafka), ~/.cache unless set          |
| JAVA_HOME               | the Java to use, the one on the PATH unless set                              |
"""
