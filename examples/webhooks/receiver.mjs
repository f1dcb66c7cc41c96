// Receive webhooks with Node, without dependencies. Copy verify.js into the same folder.
//
// WEBHOOK_SECRET=whsec_… node receiver.mjs 8003

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { verify } from "./verify.js";

const SECRET = process.env.WEBHOOK_SECRET;
if (!SECRET) throw new Error("Set WEBHOOK_SECRET.");
const MAX_BYTES = 64 * 1024;
const FILE = "events.txt";

// An event can arrive again, also after a restart, so a file remembers the ids. It works for a single process; with
// several, insert the ids into a table with a unique column.
const known = new Set(existsSync(FILE) ? readFileSync(FILE, "utf8").split("\n") : []);

// Process an event. Only enqueue longer work here: the service waits ten seconds for the response.
function handle({ payload }) {
  console.log(`Job ${payload.id}: ${payload.status}`);
}

// Return the response's status.
async function receive(request) {
  if (request.method !== "POST") return 405;
  const body = await bodyOf(request);
  if (body.length > MAX_BYTES) return 413;
  const id = request.headers["x-service-event-id"];
  if (!id || !verify(SECRET, request.headers["x-service-signature"], body)) return 400;
  const event = JSON.parse(body);
  if (event.kind !== "job.terminal" || known.has(id)) return 204;
  handle(event); // if this fails, the id is not stored, and the service sends the event again
  known.add(id);
  appendFileSync(FILE, `${id}\n`);
  return 204;
}

// Return the raw body. Of a body that is too large, keep only a little more than the limit.
async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    if (size <= MAX_BYTES) chunks.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(chunks);
}

const server = createServer(async (request, response) => {
  const status = await receive(request).catch((error) => (console.error(error), 500));
  response.writeHead(status, { Allow: "POST" }).end();
});
server.listen(Number(process.argv[2] ?? 8003), "127.0.0.1", () => {
  console.log(`Listening at http://127.0.0.1:${server.address().port}`);
});
