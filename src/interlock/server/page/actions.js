// What a person does with turns: submit, answer, cancel, run again.

import { get, path, post } from "./api.js";
import { go } from "./router.js";
import { changed, followFrom, loadSessions, notify, state } from "./store.js";
import { newTurn, update } from "./turn.js";

export async function submit(text) {
  const body = { agent: state.agent.agent, input: text, session: state.session };
  if (state.role !== null) body.role = state.role;
  const shape = await post("/api/turns", body);
  if (state.session === null) {
    state.session = shape.session;
    state.turns = [];
    followFrom(shape.agent, shape.session, shape.position);
    loadSessions();
  }
  if (!state.turns.some((turn) => turn.position === shape.position)) {
    const turn = newTurn(shape);
    // A stream that is behind sends the first event still; one that is not has sent it.
    state.turns = [...state.turns, turn].sort((a, b) => a.position - b.position);
  }
  state.address = { view: "studio", agent: shape.agent, session: shape.session };
  go(state.address);
  changed();
}

export const answer = async (id, text) => take(await post(path`/api/turns/${id}/answer`, { text }));

export const cancel = async (id) => take(await post(path`/api/turns/${id}/cancel`));

/** Run a turn again from a step, in a new session, and show that. */
export async function fork(turn, step) {
  const shape = await post(path`/api/turns/${turn.id}/fork`, { step });
  await loadSessions();
  go({ view: "studio", agent: shape.agent, session: shape.session });
  notify(`A copy of the conversation runs again from step ${step}. The first one stays as it is.`);
}

/** Show the step from which a turn was run again. */
export async function showOrigin({ turn, step }) {
  const shape = await get(path`/api/turns/${turn}`);
  go({ view: "studio", agent: shape.agent, session: shape.session, turn, step });
}

/** Take over a turn of a response, if it is one of the session that is shown. */
function take(shape) {
  const turn = state.turns.find((one) => one.id === shape.turn);
  if (turn) update(turn, shape);
  changed();
}
