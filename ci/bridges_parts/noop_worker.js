// BullMQ's own worker on jobs that do nothing: prints the jobs per second of `count` jobs, as JSON.
const { Queue, Worker } = require("bullmq");

const connection = { url: process.env.VIDEOS_URL, maxRetriesPerRequest: null };
const [count, concurrency] = process.argv.slice(-2).map(Number);

async function main() {
  const queue = new Queue("bench", { connection });
  await queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: "transcode", data: { n } })));
  let done = 0;
  const began = process.hrtime.bigint();
  const worker = new Worker("bench", async () => ({}), { connection, concurrency, autorun: false });
  worker.on("completed", async () => {
    done += 1;
    if (done < count) return;
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    console.log(JSON.stringify({ per_second: count / seconds }));
    process.exit(0);
  });
  worker.run();
}
main();
