// A producer of BullMQ. It knows nothing of Euterpe: it adds a job, and prints what becomes of it.
// usage: node bullmq_producer.js REDIS_URL SOURCE_URL
const { Queue, QueueEvents } = require("bullmq");

const [url, source] = process.argv.slice(-2);
const connection = { url, maxRetriesPerRequest: null };

async function main() {
  const queue = new Queue("video-jobs", { connection });
  const events = new QueueEvents("video-jobs", { connection });
  events.on("progress", ({ data }) => console.log(`progress ${data} %`));
  await events.waitUntilReady();
  const job = await queue.add("transcode", { source }, { attempts: 3, backoff: { type: "exponential", delay: 1000 } });
  const { outputs } = await job.waitUntilFinished(events);
  for (const output of outputs) console.log(`completed ${output.url}`);
  await events.close();
  await queue.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
