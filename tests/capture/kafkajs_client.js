// kafkajs, which is only captured: it writes a few records, then reads and commits them as a member of a group.
//
//     node kafkajs_client.js BOOTSTRAP TOPIC GROUP SECONDS
const { Kafka, logLevel } = require("kafkajs");

async function main(bootstrap, topic, group, seconds) {
  const kafka = new Kafka({ clientId: "kafkajs", brokers: [bootstrap], logLevel: logLevel.ERROR });
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  for (const partition of [0, 1]) {
    await producer.send({ topic, messages: [{ key: "key", value: "value", headers: { trace: "1" }, partition }] });
  }
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: group, heartbeatInterval: 200, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  await consumer.disconnect();

  const admin = kafka.admin();
  await admin.connect();
  await admin.fetchTopicMetadata({ topics: [topic] });
  await admin.fetchTopicOffsets(topic);
  await admin.listGroups();
  await admin.describeGroups([group]);
  await admin.fetchOffsets({ groupId: group, topics: [topic] });
  await admin.deleteGroups([group]);
  await admin.disconnect();
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
