import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
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
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * How long Java's assignors take. A line "load STRATEGY MEMBERS TOPICS PARTITIONS CHANGE" prepares a group, plans for it
 * some times to warm the JVM up, and is answered by "ready". CHANGE is first, added or removed. Each line "round" is
 * answered by seconds of the thread's processor time and of the clock for a plan from decoded subscriptions, and for the
 * way from the bytes of subscriptions to the bytes of assignments; this one is 0 for server-side assignors.
 */
@SuppressWarnings("removal")
class AssignorBench {
    static final int GENERATION = 7;
    static final int WARM_UP = 5;
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    interface Load {
        void plan();

        void whole();
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Load load = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("load")) {
                load = null;
                load = load(line.split(" "));
                for (int round = 0; round < WARM_UP; round++) {
                    load.plan();
                    load.whole();
                }
                System.gc();
                System.out.println("ready");
            } else {
                System.out.println(seconds(load::plan) + " " + seconds(load::whole));
            }
            System.out.flush();
        }
    }

    static String seconds(Runnable work) {
        long start = System.nanoTime();
        long cpu = THREADS.getCurrentThreadCpuTime();
        work.run();
        return (THREADS.getCurrentThreadCpuTime() - cpu) / 1e9 + " " + (System.nanoTime() - start) / 1e9;
    }

    static Load load(String[] words) {
        String strategy = words[1];
        int members = Integer.parseInt(words[2]);
        List<String> topics = new ArrayList<>();
        for (int topic = 0; topic < Integer.parseInt(words[3]); topic++) {
            topics.add(String.format("topic-%04d", topic));
        }
        int partitions = Integer.parseInt(words[4]);
        return strategy.equals("uniform") || strategy.equals("server-range")
                ? serverSide(strategy, members, topics, partitions, words[5])
                : clientSide(strategy, members, topics, partitions, words[5]);
    }

    static Load clientSide(String strategy, int members, List<String> topics, int partitions, String change) {
        Cluster cluster = cluster(topics, partitions);
        Map<String, byte[]> subscriptions = subscriptions(strategy, members, topics, cluster, change);
        return new Load() {
            Map<String, Subscription> decoded = decode(subscriptions);

            @Override
            public void plan() {
                assignor(strategy).assign(cluster, new GroupSubscription(decoded));
                decoded.values().forEach(each -> {
                    if (each.userData() != null) {
                        each.userData().rewind();
                    }
                });
            }

            @Override
            public void whole() {
                Map<String, Assignment> plan =
                        assignor(strategy).assign(cluster, new GroupSubscription(decode(subscriptions))).groupAssignment();
                Map<String, ByteBuffer> encoded = new HashMap<>();
                plan.forEach(
                        (member, assignment) -> encoded.put(member, ConsumerProtocol.serializeAssignment(assignment)));
            }
        };
    }

    static int before(int members, String change) {
        return change.equals("added") ? members - 1 : change.equals("removed") ? members + 1 : 0;
    }

    static Map<String, byte[]> subscriptions(
            String strategy, int members, List<String> topics, Cluster cluster, String change) {
        int before = before(members, change);
        Map<String, Assignment> owned = new HashMap<>();
        if (before > 0) {
            Map<String, Subscription> first = new HashMap<>();
            for (int member = 0; member < before; member++) {
                first.put(name(member), new Subscription(topics));
            }
            owned = assignor(strategy).assign(cluster, new GroupSubscription(first)).groupAssignment();
        }
        Map<String, byte[]> subscriptions = new HashMap<>();
        for (String member : present(members, change)) {
            subscriptions.put(member, subscription(strategy, topics, owned.get(member)));
        }
        return subscriptions;
    }

    /** The members after the change. Of those before it, the one in the middle is removed. */
    static List<String> present(int members, String change) {
        int skipped = change.equals("removed") ? members / 2 : -1;
        List<String> present = new ArrayList<>();
        for (int member = 0; member < members + (skipped < 0 ? 0 : 1); member++) {
            if (member != skipped) {
                present.add(name(member));
            }
        }
        return present;
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

    static Load serverSide(String strategy, int members, List<String> topics, int partitions, String change) {
        ConsumerGroupPartitionAssignor assignor =
                strategy.equals("uniform")
                        ? new UniformAssignor()
                        : new org.apache.kafka.coordinator.group.assignor.RangeAssignor();
        Set<Uuid> ids = new HashSet<>();
        for (int topic = 0; topic < topics.size(); topic++) {
            ids.add(new Uuid(0x5e1f_0000_0000_4000L, topic * 7919L + 1));
        }
        SubscribedTopicDescriber describer =
                new SubscribedTopicDescriber() {
                    @Override
                    public int numPartitions(Uuid id) {
                        return partitions;
                    }

                    @Override
                    public Set<String> racksForPartition(Uuid id, int partition) {
                        return Set.of();
                    }
                };
        Map<String, MemberAssignment> assigned = new HashMap<>();
        if (before(members, change) > 0) {
            List<String> first = new ArrayList<>();
            for (int member = 0; member < before(members, change); member++) {
                first.add(name(member));
            }
            assigned = assignor.assign(group(first, ids, Map.of()), describer).members();
        }
        GroupSpec group = group(present(members, change), ids, assigned);
        return new Load() {
            @Override
            public void plan() {
                assignor.assign(group, describer);
            }

            @Override
            public void whole() {}
        };
    }

    static GroupSpec group(List<String> members, Set<Uuid> topics, Map<String, MemberAssignment> assigned) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String member : members) {
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            if (assigned.containsKey(member)) {
                assigned.get(member).partitions().forEach(
                        (topic, numbers) -> {
                            owned.put(topic, new HashSet<>(numbers));
                            Map<Integer, String> ofTopic = owners.computeIfAbsent(topic, each -> new HashMap<>());
                            numbers.forEach(number -> ofTopic.put(number, member));
                        });
            }
            specs.put(
                    member,
                    new MemberSubscriptionAndAssignmentImpl(
                            Optional.empty(),
                            Optional.empty(),
                            topics,
                            new org.apache.kafka.coordinator.group.modern.Assignment(owned)));
        }
        return new GroupSpecImpl(new HashMap<>(specs), SubscriptionType.HOMOGENEOUS, owners);
    }

    static String name(int member) {
        return String.format("consumer-%05d-5e1f0000-0000-4000-8000-%012d", member, member * 7919L);
    }
}
