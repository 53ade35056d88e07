// The address of what is shown: #/VIEW/agent/session/turn/step. Opening the address shows the same again.

export const VIEWS = ["studio", "inbox", "operations", "verify"];

export function parse(hash) {
  const [view, agent, session, turn, step] = hash.replace(/^#\/?/, "").split("/").map(decode);
  return {
    view: VIEWS.includes(view) ? view : "studio",
    agent: agent || null,
    session: session || null,
    turn: turn || null,
    step: /^\d{1,6}$/.test(step || "") ? Number(step) : null,
  };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

export function format({ view = "studio", agent, session, turn, step }) {
  const parts = [view, agent, session, turn, step];
  while (parts.length > 1 && (parts.at(-1) === null || parts.at(-1) === undefined)) parts.pop();
  return "#/" + parts.map((part) => encodeURIComponent(part ?? "")).join("/");
}

/** Show an address. Steps of one turn replace each other in the history, so that "back" leaves the turn. */
export function go(place, { replaces = false } = {}) {
  const hash = format(place);
  if (hash === location.hash) return;
  if (replaces) {
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}
