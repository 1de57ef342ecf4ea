import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Java's consumer as a member of a group: the commands and events of member.py. */
class GroupMember implements ConsumerRebalanceListener {
    static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    static final Map<String, String> ASSIGNORS =
            Map.of(
                    "range", PACKAGE + "RangeAssignor",
                    "roundrobin", PACKAGE + "RoundRobinAssignor",
                    "sticky", PACKAGE + "StickyAssignor",
                    "cooperative-sticky", PACKAGE + "CooperativeStickyAssignor");
    static final String STRINGS = "org.apache.kafka.common.serialization.StringDeserializer";
    static final ObjectMapper JSON = new ObjectMapper();

    final TreeSet<String> owned = new TreeSet<>();
    final Map<TopicPartition, Long> uncommitted = new HashMap<>();
    int generation = -1;
    String member = "";
    String commits;
    KafkaConsumer<String, String> consumer;

    public static void main(String[] args) throws Exception {
        new GroupMember().run(commands());
    }

    void run(BlockingQueue<JsonNode> commands) throws Exception {
        tell("ready", Map.of());
        JsonNode wish = commands.take();
        if (wish.get("do").asText().equals("end")) {
            return;
        }
        join(wish);
        while (obey(commands)) {
            poll();
            if (commits.equals("each-poll")) {
                commit(uncommitted);
            }
        }
    }

    void join(JsonNode wish) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", wish.get("bootstrap").asText());
        config.put("client.id", wish.get("client_id").asText());
        config.put("group.id", wish.get("group").asText());
        config.put("group.protocol", "classic");
        config.put("partition.assignment.strategy", ASSIGNORS.get(wish.get("assignor").asText()));
        config.put("session.timeout.ms", wish.get("session_timeout_ms").asInt());
        config.put("heartbeat.interval.ms", wish.get("heartbeat_interval_ms").asInt());
        config.put("max.poll.interval.ms", wish.get("max_poll_interval_ms").asInt());
        config.put("metadata.max.age.ms", wish.get("metadata_max_age_ms").asInt());
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("fetch.max.wait.ms", "100");
        config.put("key.deserializer", STRINGS);
        config.put("value.deserializer", STRINGS);
        if (!wish.get("instance_id").isNull()) {
            config.put("group.instance.id", wish.get("instance_id").asText());
        }
        commits = wish.get("commits").asText();
        consumer = new KafkaConsumer<>(config);
        List<String> topics = new ArrayList<>();
        wish.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics, this);
    }

    /** Does what was commanded meanwhile, and waits for more while the member pauses; false at the end. */
    boolean obey(BlockingQueue<JsonNode> commands) throws InterruptedException {
        boolean isPaused = false;
        while (isPaused || !commands.isEmpty()) {
            String command = commands.take().get("do").asText();
            switch (command) {
                case "pause" -> {
                    isPaused = true;
                    tell("paused", Map.of());
                }
                case "resume" -> {
                    isPaused = false;
                    tell("resumed", Map.of());
                }
                case "commit" -> commit(uncommitted);
                case "leave" -> {
                    consumer.close();
                    tell("left", Map.of());
                    return false;
                }
                case "end" -> {
                    return false;
                }
                default -> throw new IllegalArgumentException("there is no command " + command);
            }
        }
        return true;
    }

    void poll() {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
        for (TopicPartition partition : records.partitions()) {
            tellRead(partition, records.records(partition));
        }
        uncommitted.keySet().removeIf(partition -> !owned.contains(partition.toString()));
    }

    void commit(Map<TopicPartition, Long> offsets) {
        if (offsets.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        Map<String, Long> told = new TreeMap<>();
        offsets.forEach(
                (partition, offset) -> {
                    wanted.put(partition, new OffsetAndMetadata(offset));
                    told.put(partition.toString(), offset);
                });
        try {
            consumer.commitSync(wanted);
        } catch (KafkaException error) {
            tell("refused", Map.of("offsets", told, "error", error.toString()));
            return;
        }
        tell("committed", Map.of("offsets", told));
        wanted.keySet().forEach(uncommitted::remove);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        identify();
        for (TopicPartition partition : partitions) {
            owned.add(partition.toString());
            uncommitted.remove(partition);
        }
        tellOwned("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (commits.equals("when-revoked")) {
            Map<TopicPartition, Long> going = new HashMap<>(uncommitted);
            going.keySet().retainAll(partitions);
            commit(going);
        }
        gone("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        gone("lost", partitions);
    }

    void gone(String event, Collection<TopicPartition> partitions) {
        if (partitions.isEmpty()) {
            return;
        }
        identify();
        partitions.forEach(partition -> owned.remove(partition.toString()));
        tellOwned(event, partitions);
    }

    /** Takes over what the client is now, if it is a member: what it loses, it owned in its last generation. */
    void identify() {
        ConsumerGroupMetadata now = consumer.groupMetadata();
        if (now.generationId() > 0) {
            generation = now.generationId();
            member = now.memberId();
        }
    }

    void tellRead(TopicPartition partition, List<ConsumerRecord<String, String>> records) {
        long first = records.get(0).offset();
        long last = first - 1;
        for (ConsumerRecord<String, String> each : records) {
            if (!each.value().equals(Long.toString(each.offset()))) {
                throw new IllegalStateException(partition + " holds " + each.value() + " at " + each.offset());
            }
            if (each.offset() != last + 1) {
                tell("read", Map.of("partition", partition.toString(), "first", first, "last", last));
                first = each.offset();
            }
            last = each.offset();
        }
        tell("read", Map.of("partition", partition.toString(), "first", first, "last", last));
        uncommitted.put(partition, last + 1);
    }

    void tellOwned(String event, Collection<TopicPartition> partitions) {
        List<String> names = new ArrayList<>();
        partitions.forEach(partition -> names.add(partition.toString()));
        tell(event, Map.of("partitions", names, "owned", owned));
    }

    void tell(String event, Map<String, Object> what) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        Instant now = Instant.now();
        line.put("at", now.getEpochSecond() + now.getNano() / 1e9);
        line.put("generation", generation);
        line.put("member", member);
        line.putAll(what);
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The lines of stdin as they come, and at its end the command to end. */
    static BlockingQueue<JsonNode> commands() {
        BlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
        Thread reader =
                new Thread(
                        () -> {
                            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                                for (String line; (line = lines.readLine()) != null; ) {
                                    commands.add(JSON.readTree(line));
                                }
                                commands.add(JSON.readTree("{\"do\": \"end\"}"));
                            } catch (IOException error) {
                                throw new IllegalStateException(error);
                            }
                        });
        reader.setDaemon(true);
        reader.start();
        return commands;
    }
}
