import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
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

/**
 * How long Java's assignors take: AssignorBench STRATEGY MEMBERS TOPICS PARTITIONS CHANGE ROUNDS
 *
 * <p>CHANGE is first, added or removed. Prints two lists of milliseconds: of plans from decoded subscriptions, and from
 * the bytes of subscriptions to the bytes of assignments. The first third of the rounds only warms the JVM up.
 */
class AssignorBench {
    static final int GENERATION = 7;

    public static void main(String[] args) {
        String strategy = args[0];
        int members = Integer.parseInt(args[1]);
        List<String> topics = new ArrayList<>();
        for (int topic = 0; topic < Integer.parseInt(args[2]); topic++) {
            topics.add(String.format("topic-%04d", topic));
        }
        Cluster cluster = cluster(topics, Integer.parseInt(args[3]));
        Map<String, byte[]> subscriptions = subscriptions(strategy, members, topics, cluster, args[4]);
        int rounds = Integer.parseInt(args[5]);
        List<Double> plans = new ArrayList<>();
        List<Double> wholes = new ArrayList<>();
        for (int round = 0; round < rounds + rounds / 2; round++) {
            Map<String, Subscription> decoded = decode(subscriptions);
            long start = System.nanoTime();
            assignor(strategy).assign(cluster, new GroupSubscription(decoded));
            plans.add((System.nanoTime() - start) / 1e6);
            start = System.nanoTime();
            Map<String, Assignment> plan =
                    assignor(strategy).assign(cluster, new GroupSubscription(decode(subscriptions))).groupAssignment();
            Map<String, ByteBuffer> encoded = new HashMap<>();
            plan.forEach((member, assignment) -> encoded.put(member, ConsumerProtocol.serializeAssignment(assignment)));
            wholes.add((System.nanoTime() - start) / 1e6);
        }
        System.out.println(plans.subList(rounds / 2, plans.size()));
        System.out.println(wholes.subList(rounds / 2, wholes.size()));
    }

    static Map<String, byte[]> subscriptions(
            String strategy, int members, List<String> topics, Cluster cluster, String change) {
        int before = change.equals("added") ? members - 1 : change.equals("removed") ? members + 1 : 0;
        Map<String, Assignment> owned = new HashMap<>();
        if (before > 0) {
            Map<String, Subscription> first = new HashMap<>();
            for (int member = 0; member < before; member++) {
                first.put(name(member), new Subscription(topics));
            }
            owned = assignor(strategy).assign(cluster, new GroupSubscription(first)).groupAssignment();
        }
        Map<String, byte[]> subscriptions = new HashMap<>();
        int skipped = change.equals("removed") ? members / 2 : -1;
        for (int member = 0; member < members + (skipped < 0 ? 0 : 1); member++) {
            if (member != skipped) {
                subscriptions.put(name(member), subscription(strategy, topics, owned.get(name(member))));
            }
        }
        return subscriptions;
    }

    static byte[] subscription(String strategy, List<String> topics, Assignment owned) {
        ConsumerPartitionAssignor assignor = assignor(strategy);
        if (owned != null) {
            assignor.onAssignment(owned, new ConsumerGroupMetadata("group", GENERATION, "", Optional.empty()));
        }
        boolean isCooperative = strategy.equals("cooperative-sticky");
        Subscription subscription =
                new Subscription(
                        topics,
                        assignor.subscriptionUserData(new TreeSet<>(topics)),
                        isCooperative && owned != null ? owned.partitions() : List.of(),
                        owned == null ? -1 : GENERATION,
                        Optional.empty());
        ByteBuffer bytes = ConsumerProtocol.serializeSubscription(subscription);
        return Arrays.copyOfRange(bytes.array(), bytes.position(), bytes.limit());
    }

    static Map<String, Subscription> decode(Map<String, byte[]> subscriptions) {
        Map<String, Subscription> decoded = new HashMap<>();
        subscriptions.forEach(
                (member, bytes) -> {
                    Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(bytes));
                    subscription.setGroupInstanceId(Optional.empty());
                    decoded.put(member, subscription);
                });
        return decoded;
    }

    static ConsumerPartitionAssignor assignor(String strategy) {
        switch (strategy) {
            case "range":
                return new RangeAssignor();
            case "roundrobin":
                return new RoundRobinAssignor();
            case "sticky":
                return new StickyAssignor();
            case "cooperative-sticky":
                return new CooperativeStickyAssignor();
            default:
                throw new IllegalArgumentException(strategy);
        }
    }

    static Cluster cluster(List<String> topics, int partitions) {
        Node node = new Node(1, "localhost", 9092);
        Node[] replicas = {node};
        List<PartitionInfo> infos = new ArrayList<>();
        for (String topic : topics) {
            for (int number = 0; number < partitions; number++) {
                infos.add(new PartitionInfo(topic, number, node, replicas, replicas));
            }
        }
        return new Cluster("bench", List.of(node), infos, Set.of(), Set.of());
    }

    static String name(int member) {
        return String.format("consumer-%05d-5e1f0000-0000-4000-8000-%012d", member, member * 7919L);
    }
}
