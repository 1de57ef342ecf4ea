import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Utils;

/** What Kafka's own code makes of properties files: one line of answer for each file, texts in base64. */
public class ReadSettings {
    public static void main(String[] arguments) throws Exception {
        for (int i = 1; i < arguments.length; i++) {
            System.out.println(arguments[0].equals("connect") ? connected(arguments[i]) : read(arguments[i]));
        }
        System.exit(0);
    }

    private static String read(String path) throws Exception {
        Properties properties = Utils.loadProps(path);
        Map<String, Object> found = new TreeMap<>();
        properties.forEach((name, value) -> found.put((String) name, value));
        String jaas = properties.getProperty(SaslConfigs.SASL_JAAS_CONFIG);
        return shown(found) + " " + (jaas == null ? "-" : options(jaas));
    }

    private static String options(String jaas) {
        Map<String, Object> configs = new HashMap<>();
        configs.put(SaslConfigs.SASL_JAAS_CONFIG, new Password(jaas));
        try {
            return shown(new TreeMap<>(JaasContext.loadClientContext(configs).configurationEntries().get(0).getOptions()));
        } catch (RuntimeException refused) {
            return "refused";
        }
    }

    private static String connected(String path) throws Exception {
        Properties settings = Utils.loadProps(path);
        try (Admin admin = Admin.create(settings)) {
            String id = admin.describeCluster().clusterId().get(60, TimeUnit.SECONDS);
            return settings.containsKey("group.id") ? id + " " + used(settings) : id;
        } catch (Exception error) {
            return error.toString().replace('\n', ' ');
        }
    }

    /** What a member of a group.id reads and commits of what it wrote to the topic whose name is the client.id. */
    private static String used(Properties settings) throws Exception {
        String topic = settings.getProperty("client.id");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "written")).get(60, TimeUnit.SECONDS);
        }
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int seconds = 0; seconds < 60; seconds++) {
                for (ConsumerRecord<String, String> found : consumer.poll(Duration.ofSeconds(1))) {
                    consumer.commitSync();
                    return found.value();
                }
            }
        }
        return "nothing came";
    }

    private static String shown(Map<String, ?> texts) {
        StringBuilder line = new StringBuilder();
        texts.forEach((name, value) -> line.append(coded(name)).append('=').append(coded((String) value)).append(','));
        return line.length() == 0 ? "-" : line.toString();
    }

    private static String coded(String text) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(text.getBytes(StandardCharsets.UTF_8)) + ".";
    }
}
