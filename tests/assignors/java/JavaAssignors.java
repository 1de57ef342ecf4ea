import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Kafka's own assignors: a case as a line of JSON in, a line with the plan or the exception out. */
@SuppressWarnings("deprecation")
class JavaAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode asked = JSON.readTree(line);
                if (asked.has("subscription")) {
                    answer.put("subscription", reencode(asked));
                } else if (asked.has("keys")) {
                    answer.set("keys", inMapOrder(asked.get("keys")));
                } else if (asked.has("changes")) {
                    answer.set("firsts", firsts(asked.get("topic").asText(), asked.get("changes")));
                } else {
                    answer.set("plan", plan(asked));
                }
            } catch (Exception thrown) {
                answer.put("error", thrown.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    /** Java's bytes of the same subscription, in the same version. */
    static String reencode(JsonNode asked) {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(asked.get("subscription").asText()));
        Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
        ByteBuffer encoded =
                ConsumerProtocol.serializeSubscription(subscription, (short) asked.get("version").asInt());
        return Base64.getEncoder().encodeToString(Arrays.copyOf(encoded.array(), encoded.limit()));
    }

    /** The keys in the order of a HashMap that they are put into. */
    static ArrayNode inMapOrder(JsonNode keys) {
        Map<String, Boolean> map = new HashMap<>();
        keys.forEach(key -> map.put(key.asText(), true));
        ArrayNode order = JSON.createArrayNode();
        map.keySet().forEach(order::add);
        return order;
    }

    /** The first partition of a HashSet after each change: a number is added if it is new, and removed if it is not. */
    static ArrayNode firsts(String topic, JsonNode changes) {
        Set<TopicPartition> set = new HashSet<>();
        ArrayNode firsts = JSON.createArrayNode();
        for (JsonNode change : changes) {
            TopicPartition partition = new TopicPartition(topic, change.asInt());
            if (!set.remove(partition)) {
                set.add(partition);
            }
            firsts.add(set.isEmpty() ? -1 : set.iterator().next().partition());
        }
        return firsts;
    }

    static ObjectNode plan(JsonNode asked) {
        String strategy = asked.get("strategy").asText();
        switch (strategy) {
            case "range":
                return clientSide(new RangeAssignor(), asked);
            case "roundrobin":
                return clientSide(new RoundRobinAssignor(), asked);
            case "sticky":
                return clientSide(new StickyAssignor(), asked);
            case "cooperative-sticky":
                return clientSide(new CooperativeStickyAssignor(), asked);
            case "uniform":
                return serverSide(new UniformAssignor(), asked);
            case "server-range":
                return serverSide(new org.apache.kafka.coordinator.group.assignor.RangeAssignor(), asked);
            default:
                throw new IllegalArgumentException(strategy);
        }
    }

    static ObjectNode clientSide(ConsumerPartitionAssignor assignor, JsonNode asked) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(member.get("subscription").asText()));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(text(member, "instance"));
            subscriptions.put(member.get("id").asText(), subscription);
        }
        Map<String, ConsumerPartitionAssignor.Assignment> assigned =
                assignor.assign(cluster(asked.get("topics")), new GroupSubscription(subscriptions)).groupAssignment();
        ObjectNode plan = JSON.createObjectNode();
        assigned.forEach(
                (member, assignment) -> {
                    ObjectNode held = plan.putObject(member);
                    for (TopicPartition partition : assignment.partitions()) {
                        held.withArray(partition.topic()).add(partition.partition());
                    }
                });
        return plan;
    }

    static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields()
                .forEachRemaining(
                        topic -> {
                            int count = topic.getValue().get("partitions").asInt();
                            JsonNode racks = topic.getValue().get("racks");
                            for (int number = 0; number < count; number++) {
                                List<Node> replicas = new ArrayList<>();
                                if (racks != null && racks.has(number)) {
                                    for (JsonNode rack : racks.get(number)) {
                                        replicas.add(
                                                nodes.computeIfAbsent(
                                                        rack.asText(),
                                                        name -> new Node(nodes.size() + 1, "localhost", 9092, name)));
                                    }
                                }
                                Node[] all = replicas.toArray(new Node[0]);
                                partitions.add(new PartitionInfo(topic.getKey(), number, null, all, all));
                            }
                        });
        return new Cluster("cases", nodes.values(), partitions, Set.of(), Set.of());
    }

    static ObjectNode serverSide(ConsumerGroupPartitionAssignor assignor, JsonNode asked) {
        Map<String, Uuid> ids = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        asked.get("ids")
                .fields()
                .forEachRemaining(
                        topic -> {
                            Uuid id = Uuid.fromString(topic.getValue().asText());
                            ids.put(topic.getKey(), id);
                            names.put(id, topic.getKey());
                        });
        asked.get("topics")
                .fields()
                .forEachRemaining(
                        topic -> counts.put(ids.get(topic.getKey()), topic.getValue().get("partitions").asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Map<String, Integer> subscribers = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            String memberId = member.get("id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            for (JsonNode topic : member.get("topics")) {
                subscribers.merge(topic.asText(), 1, Integer::sum);
                if (counts.containsKey(ids.get(topic.asText()))) {
                    topics.add(ids.get(topic.asText()));
                }
            }
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            member.get("owned")
                    .fields()
                    .forEachRemaining(
                            topic -> {
                                List<Integer> numbers = new ArrayList<>();
                                for (JsonNode number : topic.getValue()) {
                                    numbers.add(number.asInt());
                                    owners.computeIfAbsent(ids.get(topic.getKey()), id -> new HashMap<>())
                                            .put(number.asInt(), memberId);
                                }
                                owned.put(ids.get(topic.getKey()), new HashSet<>(numbers));
                            });
            members.put(
                    memberId,
                    new MemberSubscriptionAndAssignmentImpl(
                            text(member, "rack"), text(member, "instance"), topics, new Assignment(owned)));
        }
        boolean same = subscribers.values().stream().allMatch(count -> count == members.size());
        SubscriptionType type = same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber topics =
                new SubscribedTopicDescriber() {
                    @Override
                    public int numPartitions(Uuid id) {
                        return counts.getOrDefault(id, -1);
                    }

                    @Override
                    public Set<String> racksForPartition(Uuid id, int partition) {
                        return Set.of();
                    }
                };
        Map<String, MemberAssignment> target =
                assignor.assign(new GroupSpecImpl(members, type, owners), topics).members();
        ObjectNode plan = JSON.createObjectNode();
        members.keySet().forEach(plan::putObject);
        target.forEach(
                (member, assignment) ->
                        assignment
                                .partitions()
                                .forEach(
                                        (id, numbers) -> {
                                            for (int number : numbers) {
                                                plan.withObject("/" + member).withArray(names.get(id)).add(number);
                                            }
                                        }));
        return plan;
    }

    static Optional<String> text(JsonNode node, String field) {
        return node.hasNonNull(field) ? Optional.of(node.get(field).asText()) : Optional.empty();
    }
}
