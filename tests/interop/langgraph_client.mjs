// Does with LangGraph's JavaScript client what the test of its Python client does, and prints what it sees as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, apiUrl] = process.argv.slice(2);
const found = createRequire(`${folder}/x.js`).resolve("@langchain/langgraph-sdk");
const { Client } = await import(pathToFileURL(found).href);
const client = new Client({ apiUrl });
const all = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

const seen = {};
seen.assistants = (await client.assistants.search()).map((one) => one.graph_id);
const { thread_id: thread } = await client.threads.create({ metadata: { from: "javascript" } });
const input = { messages: [{ type: "human", content: "hello there", id: "m-1" }] };
const streamMode = ["values", "updates", "messages-tuple", "custom"];
seen.stream = await all(client.runs.stream(thread, "sam", { input, streamMode, streamSubgraphs: true, streamResumable: true }));
seen.values = await client.runs.wait(thread, "sam", { input: { messages: [{ role: "user", content: "again" }] } });
seen.state = await client.threads.getState(thread);
seen.history = (await client.threads.getHistory(thread, { limit: 3 })).map((one) => one.next);
seen.search = (await client.threads.search({ metadata: { from: "javascript" } })).map((one) => one.thread_id === thread);

const { thread_id: asking } = await client.threads.create();
seen.asked = await all(client.runs.stream(asking, "parcels", { input: { text: "ask" }, streamMode: ["values", "updates"] }));
seen.waiting = (await client.threads.get(asking)).status;
let run;
const command = { resume: "red" };
seen.answered = await all(client.runs.stream(asking, "parcels", { command, onRunCreated: (made) => { run = made.run_id; } }));
seen.joined = await all(client.runs.joinStream(asking, run, { streamMode: ["values", "updates"], lastEventId: "-1" }));

const slow = await client.runs.create(asking, "parcels", { input: { text: "wait 30" } });
try {
  await client.runs.create(asking, "parcels", { input: { text: "now" }, multitaskStrategy: "reject" });
} catch (error) {
  seen.rejected = error.status;
}
await client.runs.cancel(asking, slow.run_id, true);
seen.cancelled = (await client.runs.get(asking, slow.run_id)).status;
try {
  await client.runs.wait(asking, "parcels", { command: { goto: "deliver", resume: "x" } });
} catch (error) {
  seen.refused = String(error);
}
console.log(JSON.stringify(seen));
