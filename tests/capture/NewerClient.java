import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A Java client without the tools of its release, which is only captured: it writes a few records, then reads and
 * commits them as a member of a classic group and of a consumer group (KIP-848).
 *
 * <p>java -cp … NewerClient.java BOOTSTRAP TOPIC GROUP SECONDS
 */
class NewerClient {
    static final String PACKAGE = "org.apache.kafka.common.serialization.";

    public static void main(String[] args) {
        long stay = Long.parseLong(args[3]) * 1000;
        Map<String, Object> where = Map.of("bootstrap.servers", args[0]);
        produce(where, args[1]);
        for (String protocol : List.of("classic", "consumer")) {
            join(where, args[1], args[2] + "-" + protocol, protocol, stay);
        }
    }

    static void produce(Map<String, Object> where, String topic) {
        Map<String, Object> config = new HashMap<>(where);
        config.put("key.serializer", PACKAGE + "StringSerializer");
        config.put("value.serializer", PACKAGE + "StringSerializer");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config)) {
            for (int number = 0; number < 8; number++) {
                producer.send(new ProducerRecord<>(topic, number % 2, "key", "value " + number));
            }
        }
    }

    static void join(Map<String, Object> where, String topic, String group, String protocol, long stay) {
        Map<String, Object> config = new HashMap<>(where);
        config.put("key.deserializer", PACKAGE + "StringDeserializer");
        config.put("value.deserializer", PACKAGE + "StringDeserializer");
        config.put("group.id", group);
        config.put("group.protocol", protocol);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config)) {
            consumer.subscribe(List.of(topic));
            long end = System.currentTimeMillis() + stay;
            while (System.currentTimeMillis() < end) {
                if (!consumer.poll(Duration.ofMillis(500)).isEmpty()) {
                    consumer.commitSync();
                }
            }
        }
    }
}
