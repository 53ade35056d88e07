// What the page shows, and one paint a frame for everything that changed.

import { eventsOf, get, path } from "./api.js";
import { format, go, parse } from "./router.js";
import { follow } from "./stream.js";
import { addTimes, apply, ENDED, newTurn, update } from "./turn.js";

const TURNS_SHOWN = 30;
const STEPS_LOADED = 60;

export const state = {
  me: null, agents: [], agent: null, sessions: [], session: null, role: null,
  turns: [], place: parse(location.hash), tab: "chat", node: null, opened: new Set(),
  waiting: [], notice: "", stream: "closed", address: { view: "studio" },
};

const painters = new Set();
let isDue = false;

/** Call a function in the next frame after a change. */
export function onPaint(painter) {
  painters.add(painter);
}

export function changed() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    for (const painter of painters) painter(state);
  });
}

/** Show a sentence for a while. */
let forgetting = 0;
export function notify(text) {
  state.notice = text;
  clearTimeout(forgetting);
  forgetting = setTimeout(() => {
    state.notice = "";
    changed();
  }, 6000);
  changed();
}

/** Run a request of a person; say what went wrong. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.status === 401) location.reload();
    notify(error.message);
    return null;
  }
}

// What is shown: the turn of the address, or the newest one, live.

export const isLive = () => state.place.turn === null;
export const shownTurn = () => (isLive() ? state.turns.at(-1) : state.turns.find((turn) => turn.id === state.place.turn)) ?? null;

/** Return the step that the panel is about: the one of the address, the last one of a chosen node, or the newest one. */
export function shownStep() {
  const turn = shownTurn();
  if (!turn) return null;
  if (state.place.step !== null) return turn.steps.find((step) => step.number === state.place.step) ?? null;
  if (state.node !== null) return turn.steps.findLast((step) => step.node === state.node) ?? null;
  return turn.steps.findLast((step) => step.status === "running") ?? turn.steps.at(-1) ?? null;
}

export function showStep(turn, number) {
  state.node = null;
  go({ ...state.place, view: "studio", turn: turn.id, step: number }, { replaces: state.place.turn === turn.id });
}

export function showTurn(turn) {
  state.node = null;
  go({ ...state.place, view: "studio", turn: turn.id, step: null });
}

export function showNode(node) {
  state.node = node;
  const turn = shownTurn();
  const step = turn?.steps.findLast((one) => one.node === node);
  if (turn && step && !isLive()) showStep(turn, step.number);
  state.tab = state.tab === "graph" ? "node" : state.tab;
  changed();
}

export function backToLive() {
  state.node = null;
  go({ view: "studio", agent: state.place.agent, session: state.place.session });
  changed();
}

// Agents and sessions.

export async function loadSessions() {
  state.sessions = (await get("/api/sessions?limit=100")).sessions;
  changed();
}

let closing = null;

function closeStream() {
  closing?.();
  closing = null;
}

/** Show a session: its last turns, and what happens in it from now on. */
export async function openSession(agent, session) {
  closeStream();
  state.session = session;
  state.turns = [];
  state.node = null;
  if (session === null) return changed();
  const listed = await get(path`/api/sessions/${agent}/${session}/turns` + `?limit=${TURNS_SHOWN}`);
  if (state.session !== session) return;
  // What they have done before comes at once, so its times say nothing.
  state.turns = listed.turns.reverse().map((shape) => ({ ...newTurn(shape), isTimed: false, isListed: true }));
  // The next message is sent in the role of the last one.
  const role = state.turns.at(-1)?.shape.role;
  if (state.agent?.roles.includes(role)) state.role = role;
  changed();
  const open = state.turns.find((turn) => ["queued", "ready", "running", "waiting"].includes(turn.status));
  followFrom(agent, session, open ? open.position : (state.turns.at(-1)?.position ?? 0) + 1);
}

/** Load what the conversation shows of a turn and lists leave out: its input, and the tools that it used. The events of a long turn are
 * loaded when the turn is shown. */
export async function loadConversation(turn) {
  if (!turn.isListed) return;
  turn.isListed = false;
  update(turn, await get(path`/api/turns/${turn.id}`));
  changed();
  if (ENDED.includes(turn.status) && (turn.shape.path ?? []).length <= STEPS_LOADED) await loadTurn(turn);
}

/** Follow a session from the events of a turn on. */
export function followFrom(agent, session, position) {
  closeStream();
  closing = follow(agent, session, position, {
    onEvent: (place, event) => {
      const turn = turnAt(place, event);
      apply(turn, event, { now: turn.isTimed ? performance.now() : null, speakers: state.agent?.speaks ?? [] });
      changed();
    },
    onStatus: (shape) => {
      const turn = turnAt(shape.position, null, shape);
      turn.isLoaded = true;
      update(turn, shape);
      loadWaiting();
      changed();
    },
    onState: (name) => {
      state.stream = name;
      changed();
    },
  });
}

function turnAt(position, event, shape) {
  let turn = state.turns.find((one) => one.position === position);
  if (!turn) {
    turn = newTurn(shape ?? { turn: event.metadata.turn ?? `#${position}`, position, status: "running", output: null });
    state.turns = [...state.turns, turn].sort((a, b) => a.position - b.position);
  }
  // Its events come by the stream from the first one on.
  if (turn.events === 0 && event?.metadata.sequence === 1) turn.isLoaded = true;
  return turn;
}

/** Load the events of a turn that is shown and was not followed live. */
const loading = new Set();
export async function loadTurn(turn) {
  if (turn.isLoaded || loading.has(turn.id) || turn.id.startsWith("#")) return;
  loading.add(turn.id);
  try {
    const { events } = await eventsOf(turn.id);
    if (turn.isLoaded) return;
    const fresh = newTurn(turn.shape);
    for (const event of events) apply(fresh, event, { speakers: state.agent?.speaks ?? [] });
    Object.assign(turn, { steps: fresh.steps, runs: fresh.runs, scopes: fresh.scopes, said: fresh.said, events: fresh.events, isLoaded: true });
    turn.version++;
  } finally {
    loading.delete(turn.id);
  }
  changed();
}

/** Load the times of a turn that is shown and does not run: the server stores them for every step, whoever watched it. */
export async function loadTimes(turn) {
  const isOver = ENDED.includes(turn.status) || turn.status === "waiting";
  if (!turn.isLoaded || !isOver || turn.timedAs === turn.status) return;
  turn.timedAs = turn.status;
  const { steps } = await get(path`/api/turns/${turn.id}/steps`);
  addTimes(turn, steps);
  changed();
}

export async function loadWaiting() {
  const found = (await get("/api/waiting")).turns;
  if (JSON.stringify(found.map((one) => one.turn)) !== JSON.stringify(state.waiting.map((one) => one.turn))) {
    state.waiting = found;
    changed();
  }
}

/** Show what the address says. A later address takes over from one that is still being opened. */
let openings = 0;
export async function openPlace() {
  const place = parse(location.hash), opening = ++openings;
  state.place = place;
  const name = place.agent ?? state.agent?.agent ?? state.sessions[0]?.agent ?? state.agents[0]?.agent;
  if (place.view !== "studio" || name === undefined) return changed();
  await attempt(async () => {
    const agent = state.agent?.agent === name ? state.agent : await get(path`/api/agents/${name}`);
    if (opening !== openings) return;
    if (agent !== state.agent) Object.assign(state, { agent, role: agent.roles[0] ?? null, opened: new Set() });
    const session = place.agent === null ? (state.sessions.find((one) => one.agent === name)?.session ?? null) : place.session;
    if (state.address.agent !== name || session !== state.session) await openSession(name, session);
    if (opening !== openings) return;
    if (place.agent === null) history.replaceState(null, "", format({ view: "studio", agent: name, session }));
    state.place = parse(location.hash);
    state.address = { view: "studio", agent: name, session };
    const turn = state.place.turn;
    if (turn !== null && !state.turns.some((one) => one.id === turn)) {
      const shape = await get(path`/api/turns/${turn}`);
      if (shape.agent === name && shape.session === session) state.turns = [...state.turns, newTurn(shape)].sort((a, b) => a.position - b.position);
      else notify("That turn belongs to another session.");
    }
  });
  changed();
}
