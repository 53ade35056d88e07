// Talks to agents by AG-UI's own client, which verifies every event, and prints what it sees as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, address, key] = process.argv.slice(2);
const found = createRequire(`${folder}/x.js`).resolve("@ag-ui/client");
const { HttpAgent, buildResumeArray } = (await import(pathToFileURL(found).href)).default;

const headers = key ? { Authorization: `Bearer ${key}` } : {};
const open = (name, threadId) => new HttpAgent({ url: `${address}/agui/${name}`, threadId, headers });

// Returns the events of a run, with the messages and the state that the client has made of them.
const run = async (agent, text, resume) => {
  const events = [];
  let failed = null;
  if (text !== null) agent.addMessage({ id: `m-${agent.messages.length}`, role: "user", content: text });
  try {
    await agent.runAgent({ resume }, { onEvent: ({ event }) => void events.push(event) });
  } catch (error) {
    failed = { status: error.status ?? null, message: String(error.message) };
  }
  return { events, failed, messages: structuredClone(agent.messages), state: structuredClone(agent.state), pending: agent.pendingInterrupts };
};
const answers = (agent, response) =>
  buildResumeArray(agent.pendingInterrupts, Object.fromEntries(agent.pendingInterrupts.map((one) => [one.id, response])));

const seen = { replies: {} };
const questions = {
  sam: "Good morning",
  desk: "I want to buy two laptops",
  analyst: "What was the revenue in 2024?",
  "gateway/admin": "list the files",
  "gateway/user": "list my documents",
  puntini: "Add a person called Ada",
};
for (const [name, text] of Object.entries(questions)) seen.replies[name] = await run(open(name, "first"), text);

const puntini = open("puntini", "second");
seen.conversation = [];
for (const text of ["Add a task Design", "Add a person Design", "Set the priority of Design to 3"])
  seen.conversation.push(await run(puntini, text));
seen.ignored = await run(puntini, "continue");
seen.conversation.push(await run(puntini, null, answers(puntini, { status: "resolved", payload: "Task Design" })));
await run(puntini, "Set the status of Design to open");
seen.abandoned = await run(puntini, null, answers(puntini, { status: "cancelled" }));
await run(puntini, "Set the priority of Design to 4");
// A client that has forgotten the interrupt answers by a message.
seen.answered = await run(open("puntini", "second"), "Task Design");
seen.unknown = await run(open("nobody", "third"), "hello");
seen.failed = await run(open("teller", "fourth"), "this fails");
seen.stale = await run(open("puntini", "second"), null, [{ interruptId: "x.1", status: "resolved", payload: "x" }]);
const parcels = open("parcels", "fifth");
seen.asked = await run(parcels, "ask");
seen.cancelled = await run(parcels, null, answers(parcels, { status: "cancelled" }));
console.log(JSON.stringify(seen));
