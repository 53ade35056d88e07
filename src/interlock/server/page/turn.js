// One turn, folded from its events: steps, calls, spoken text, edges that were taken. The same for a live turn and a past one.

/** Return a turn without events. `shape` is the turn as the REST API returns it, as far as it is known. */
export function newTurn(shape) {
  return {
    id: shape.turn, position: shape.position, shape, status: shape.status, given: shape.input ?? null,
    steps: [], runs: new Map(), scopes: new Map(), said: new Map(), events: 0, version: 1, isListed: false, isLoaded: false, isTimed: true, timedAs: null,
  };
}

export const ENDED = ["success", "error", "cancelled"];

/** Take over what the API says about a turn. Lists leave out the input, the state, and where a fork comes from. */
export function update(turn, shape) {
  // The answer to a request may come after the stream has said how the turn ended.
  if (ENDED.includes(turn.status) && !ENDED.includes(shape.status)) return;
  turn.shape = { ...turn.shape, ...shape, input: shape.input ?? turn.shape.input, state: shape.state ?? turn.shape.state,
    forked_from: shape.forked_from ?? turn.shape.forked_from };
  turn.id = shape.turn;
  turn.status = shape.status;
  turn.given = shape.input ?? turn.given;
  turn.version++;
}

/** Add an event. Events that are emitted again, after a worker died, replace the first ones. */
export function apply(turn, event, { now = null, speakers = [] } = {}) {
  const { event: kind, run_id: run, metadata, data } = event;
  turn.events = metadata.sequence ?? turn.events + 1;
  turn.version++;
  if (turn.status === "waiting" || turn.status === "queued" || turn.status === "ready") turn.status = "running";
  if (kind.startsWith("on_chain_")) onChain(turn, event, kind.slice(9), now);
  else if (kind.startsWith("on_chat_model_")) onModel(turn, event, kind.slice(14), now, speakers);
  else if (kind.startsWith("on_tool_")) onCall(turn, event, "tool", kind.slice(8), now);
}

function onChain(turn, event, moment, now) {
  const { run_id: run, metadata, data, parent_ids: parents } = event;
  if (metadata.langgraph_node !== undefined) return onStep(turn, event, moment, now);
  if (moment === "start") {
    if (!parents.length) {
      turn.id = metadata.turn ?? turn.id;
      turn.given = data.input ?? turn.given;
    }
    const owner = ownerOf(turn, parents);
    // Where the events come again, after a worker died or by another request, the steps of the graph come again, too.
    turn.scopes.set(run, { graph: metadata.graph ?? event.name, input: data.input, within: owner ? owner.node : "", steps: [], isOver: false });
  } else if (turn.scopes.has(run)) turn.scopes.get(run).isOver = moment === "end";
}

function onStep(turn, event, moment, now) {
  const { run_id: run, metadata, data, parent_ids: parents } = event;
  let step = turn.runs.get(run);
  if (moment === "start") {
    const scope = turn.scopes.get(parents.at(-1));
    const fresh = {
      run, node: metadata.langgraph_node, number: metadata.langgraph_step, scope: parents.at(-1), status: "running", reads: data.input ?? {},
      writes: {}, calls: [], error: null, startedAt: now, ms: null, tokens: null, graph: scope ? scope.graph : null, event: metadata.sequence,
    };
    fresh.name = fresh.node.slice(fresh.node.lastIndexOf("/") + 1);
    fresh.depth = fresh.node.split("/").length - 1;
    if (step) Object.assign(step, fresh);
    else {
      step = fresh;
      turn.steps.push(step);
      turn.runs.set(run, step);
    }
    if (scope && !scope.steps.includes(step)) scope.steps.push(step);
  } else if (step) {
    // A step that asks a person ends here; it runs again when the answer is there.
    step.status = moment === "end" ? "success" : data.error?.code === "person_awaited" ? "waiting" : "error";
    step.writes = moment === "end" && data.output && typeof data.output === "object" ? data.output : {};
    step.error = step.status === "error" ? data.error : null;
    if (now !== null && step.startedAt !== null) step.ms = now - step.startedAt;
  }
}

function onModel(turn, event, moment, now, speakers) {
  if (moment === "stream") {
    const step = ownerOf(turn, event.parent_ids);
    const text = event.data.chunk?.text;
    if (text && step && speakers.includes(step.name)) turn.said.set(event.run_id, (turn.said.get(event.run_id) ?? "") + text);
    return;
  }
  if (moment === "start") turn.said.delete(event.run_id);
  onCall(turn, event, "model", moment, now);
}

function onCall(turn, event, kind, moment, now) {
  const { run_id: run, data } = event;
  if (moment === "start") {
    const call = { kind, run, name: event.name, input: data.input, output: undefined, error: null, status: "running", startedAt: now, ms: null };
    const owner = ownerOf(turn, event.parent_ids);
    if (owner) {
      const place = owner.calls.findIndex((one) => one.run === run);
      if (place >= 0) owner.calls[place] = call;
      else owner.calls.push(call);
    }
    turn.runs.set(run, call);
  } else if (moment === "end" || moment === "error") {
    const call = turn.runs.get(run);
    if (!call) return;
    call.status = moment === "end" && !data.output?.error ? "success" : "error";
    call.output = data.output;
    call.error = data.error ?? null;
    if (now !== null && call.startedAt !== null) call.ms = now - call.startedAt;
  }
}

/** Return the step that a run is inside. */
function ownerOf(turn, parents) {
  for (let n = parents.length - 1; n >= 0; n--) {
    const found = turn.runs.get(parents[n]);
    if (found && found.node !== undefined) return found;
  }
  return null;
}

/** Return the text that the turn says: what its speaking nodes streamed, or its output when it has ended. */
export function textOf(turn) {
  const output = turn.shape.output;
  if (turn.status !== "running" && typeof output === "string") return output;
  if (turn.status !== "running" && output !== null && output !== undefined) return JSON.stringify(output, null, 2);
  return [...turn.said.values()].join("\n\n");
}

/** Return what a person gave: the text of the input, whichever field of the graph holds it. */
export function givenText(turn) {
  const given = turn.given;
  if (!given) return "";
  const messages = Array.isArray(given.messages) ? given.messages : null;
  if (messages) return textIn(messages.filter((one) => one.type === "human").at(-1)?.content);
  const named = Object.entries(given).filter(([name]) => !/(^|_)id$/.test(name));
  return textIn((named.find(([, value]) => typeof value === "string" && value) ?? named.find(([, value]) => value) ?? [])[1]);
}

function textIn(value) {
  if (typeof value === "string") return value.startsWith("data:") ? `(a file: ${value.slice(5, 40).split(/[;,]/)[0]})` : value;
  return value === undefined ? "" : value && typeof value.text === "string" ? value.text : JSON.stringify(value);
}

/** Return how often each node ran and each edge was taken. Nodes are named by path, edges by "path of graph|source|target". */
export function tracesOf(turn, upTo = Infinity) {
  const nodes = new Map(), edges = new Map();
  const add = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
  for (const step of turn.steps) {
    if (step.number > upTo) continue;
    add(nodes, step.node);
  }
  for (const scope of turn.scopes.values()) {
    const within = scope.within;
    const steps = scope.steps.filter((step) => step.number <= upTo);
    if (steps.length) add(edges, `${within}||${steps[0].name}`);
    steps.forEach((step, n) => n && add(edges, `${within}|${steps[n - 1].name}|${step.name}`));
    const last = steps.at(-1);
    if (scope.isOver && last && last.status === "success" && steps.length === scope.steps.length) add(edges, `${within}|${last.name}|`);
  }
  return { nodes, edges };
}

/** Return the state around a step, as far as the turn's events show it: a field is known once it was given, read or written. */
export function statesAround(turn, step) {
  const scope = turn.scopes.get(step.scope);
  const before = { ...(scope?.input && typeof scope.input === "object" ? scope.input : {}) };
  const written = new Set();
  for (const one of scope?.steps ?? []) {
    if (one.number > step.number) break;
    for (const [name, value] of Object.entries(one.reads)) if (!name.endsWith("?") && !written.has(name)) before[name] = value;
    if (one === step) break;
    for (const [name, value] of Object.entries(one.writes)) {
      before[name] = value;
      written.add(name);
    }
  }
  return { before, after: { ...before, ...step.writes } };
}

/** Return the tokens of a model call, where its provider counted them. */
export function tokensOf(call) {
  const usage = call.output?.usage;
  return usage ? { in: usage.input_tokens ?? null, out: usage.output_tokens ?? null } : null;
}

/** Take over the times and tokens that the server has stored for the steps of a turn. */
export function addTimes(turn, listed) {
  const own = new Map(turn.steps.map((step) => [`${step.number}|${step.node}`, step]));
  for (const one of listed) {
    const step = own.get(`${one.number}|${one.node}`);
    if (!step) continue;
    step.ms = one.ms ?? step.ms;
    step.tokens = one.tokens;
    one.calls.forEach((call, n) => {
      if (step.calls[n]?.name === call.name) step.calls[n].ms = call.ms ?? step.calls[n].ms;
    });
  }
  turn.version++;
}

/** Return the tokens of a step: what the server has added up, or what its calls say while it runs. */
export function tokensOfStep(step) {
  if (step.tokens) return { in: step.tokens.input_tokens, out: step.tokens.output_tokens };
  const counted = step.calls.map(tokensOf).filter(Boolean);
  const sum = (name) => (counted.some((one) => one[name] !== null) ? counted.reduce((all, one) => all + (one[name] ?? 0), 0) : null);
  return counted.length ? { in: sum("in"), out: sum("out") } : null;
}
