// A producer of BullMQ. It reads one command per line, as JSON, and answers each with one line.
// Its events go to stdout, too, as {"event": ...}, so that a test can wait for them.
const { Queue, QueueEvents, createPostgresBackend } = require("bullmq");
const readline = require("node:readline");

const url = process.env.VIDEOS_URL;
const name = process.env.QUEUE || "video-jobs";
const onPostgres = url.startsWith("postgres");
const options = { connection: onPostgres ? { connectionString: url, migrate: true } : { url, maxRetriesPerRequest: null } };
const backend = onPostgres ? [createPostgresBackend] : [];
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const quiet = () => {};

async function main() {
  const queue = new Queue(name, options, ...backend);
  const events = new QueueEvents(name, options, ...backend);
  queue.on("error", quiet);
  events.on("error", quiet);
  await events.waitUntilReady();
  await queue.waitUntilReady();
  for (const event of ["active", "progress", "completed", "failed", "stalled", "delayed", "retries-exhausted"])
    events.on(event, (args) => say({ event, ...args }));
  const commands = {
    add: async ({ jobs }) => (await Promise.all(jobs.map(([n, d, o]) => queue.add(n, d, o)))).map((j) => j.id),
    job: async ({ id }) => {
      const job = await queue.getJob(id);
      return job && { ...job.asJSON(), state: await job.getState() };
    },
    counts: () => queue.getJobCounts(),
    pause: () => queue.pause(),
    resume: () => queue.resume(),
    retry: async ({ id }) => (await queue.getJob(id)).retry("failed"),
    obliterate: () => queue.obliterate({ force: true }),
    close: async () => { await events.close(); await queue.close(); },
  };
  say({ ready: true });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    try {
      say({ answer: (await commands[command.call](command)) ?? null });
    } catch (error) {
      say({ error: String(error) });
    }
    if (command.call === "close") break;
  }
  process.exit(0);
}
main();
