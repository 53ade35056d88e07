// The conversation: what was said, the tools that were used, the question of a suspended turn, and the composer.

import { endOf, fill, h, newId } from "./dom.js";
import { formOf } from "./form.js";
import { render } from "./markdown.js";
import { answer, cancel, showOrigin, submit } from "./actions.js";
import { attempt, changed, isLive, loadConversation, showStep, shownTurn, showTurn, state } from "./store.js";
import { givenText, textOf } from "./turn.js";
import { durationOf, secondsOf, statusPill } from "./words.js";

const MOST_SHOWN = 1200;

export function makeChat() {
  const log = h("div", { class: "log", role: "log", "aria-label": "Conversation", tabindex: "0" });
  const input = h("textarea", { id: newId("say"), rows: "1", "data-focus": "say" });
  const label = h("label", { for: input.id, class: "hidden" }, "Message");
  const role = h("select", { class: "small", "aria-label": "Role", on: { change: () => { state.role = role.value; changed(); } } });
  const send = h("button", { class: "primary", type: "submit" }, "Send");
  const stop = h("button", { type: "button", class: "danger", on: { click: () => attempt(() => cancel(state.turns.at(-1).id)) } }, "Stop");
  const form = h("form", { class: "composer", on: { submit: (event) => { event.preventDefault(); say(); } } }, label, input, h("div", { class: "row" }, role, h("span", { class: "grow" }), stop, send));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      say();
    }
  });
  input.addEventListener("input", () => {
    input.style.height = "auto";
    input.style.height = `${Math.min(input.scrollHeight + 2, 180)}px`;
  });

  // A message that is sent before the agent is loaded is sent when it is.
  let isEarly = false;
  async function say() {
    const text = input.value.trim();
    isEarly = !state.agent;
    if (!text || isEarly) return;
    input.value = "";
    input.style.height = "auto";
    const waits = waitingTurn();
    const done = await attempt(() => (waits ? answer(waits.id, text) : submit(text)).then(() => true));
    if (!done) input.value = text;
  }

  const shown = new Map(), end = endOf(log, 60);
  // Of past turns, only those that are near the screen are loaded.
  const near = new IntersectionObserver((entries) => {
    const came = new Set(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
    for (const turn of state.turns.filter((one) => came.has(shown.get(one.position)?.element)).reverse()) attempt(() => loadConversation(turn));
  }, { root: log, rootMargin: "300px 0px" });
  let session = "";
  function paint() {
    const key = `${state.agent?.agent}|${state.session}`;
    if (key !== session) {
      session = key;
      near.disconnect();
      shown.clear();
      fill(log);
    }
    if (!state.turns.length) paintStart(log);
    else log.querySelector(".start")?.remove();
    state.turns.forEach((turn, n) => paintTurn(log, shown, turn, n, near));
    if (isLive()) end.keep();
    const last = state.turns.at(-1), waits = waitingTurn();
    const isBusy = last && ["queued", "ready", "running"].includes(last.status);
    stop.hidden = !isBusy;
    // An answer that is data is given by the form of the question.
    input.disabled = send.hidden = Boolean(waits?.shape.waiting?.schema);
    send.textContent = waits ? "Answer" : "Send";
    input.placeholder = input.disabled ? "Answer with the form above" : waits ? "Answer the question" : state.agent ? `Message ${state.agent.agent}` : "";
    const roles = state.agent?.roles ?? [];
    role.hidden = roles.length < 2;
    if (role.dataset.key !== roles.join()) {
      role.dataset.key = roles.join();
      fill(role, roles.map((name) => h("option", { value: name }, `as ${name}`)));
    }
    if (state.role !== null) role.value = state.role;
    if (isEarly && state.agent) say();
  }
  return { element: h("section", { class: "chat", "aria-label": "Chat" }, log, form), paint, focus: () => input.focus() };
}

const waitingTurn = () => state.turns.find((turn) => turn.status === "waiting") ?? null;

function paintStart(log) {
  const key = `${state.agent?.agent ?? ""}|${state.role}`;
  if (log.querySelector(".start")?.dataset.key === key) return;
  const examples = (state.agent?.examples ?? []).filter((one) => one.role === state.role);
  fill(log, h("div", { class: "start", "data-key": key }, state.agent ? [h("h2", null, state.agent.agent), h("p", null, state.agent.summary),
    examples.length ? h("p", { class: "muted" }, "Try one of these:") : null,
    examples.map(({ text, shows }) => h("button", { class: "example", on: { click: () => attempt(() => submit(text)) } }, text, h("span", { class: "muted" }, shows)))] : null));
}

function paintTurn(log, shown, turn, n, near) {
  let view = shown.get(turn.position);
  if (!view) {
    view = { version: "", element: h("article", { class: "turn", "aria-label": `Turn ${turn.position}` }) };
    shown.set(turn.position, view);
    log.insertBefore(view.element, log.querySelectorAll(":scope > .turn")[n] ?? null);
    // In the next frame, when the end of the conversation has been scrolled to.
    const { element } = view;
    requestAnimationFrame(() => near.observe(element));
  }
  view.element.classList.toggle("shown", shownTurn() === turn && !isLive());
  const version = `${turn.version}|${turn.status}`;
  if (view.version === version) return;
  view.version = version;
  const text = textOf(turn), isRunning = turn.status === "running";
  const error = turn.shape.error;
  view.element.replaceChildren(
    h("div", { class: "given" }, h("span", { class: "hidden" }, "You: "), longText(givenText(turn) || "…", view)),
    turn.shape.forked_from ? h("p", { class: "muted answered" }, "Run again from ", h("button", { class: "link", on: { click: () => attempt(() => showOrigin(turn.shape.forked_from)) } }, `step ${turn.shape.forked_from.step} of another conversation`)) : "",
    toolChips(turn),
    h("div", { class: isRunning ? "said running" : "said" },
      text && turn.status !== "waiting" && text !== error?.message ? render(text, { isOpen: isRunning }) : isRunning ? h("p", { class: "muted working" }, turn.steps.at(-1)?.name ?? "starting") : null,
      error ? h("p", { class: "error" }, h("code", null, error.code), " ", error.message) : null),
    turn.status === "waiting" ? question(turn.shape) : "",
    turn.shape.answer && turn.status !== "waiting" ? h("p", { class: "muted answered" }, `Answered: ${answerText(turn.shape.answer.text)}`, turn.shape.answer.by ? ` (by ${turn.shape.answer.by})` : "") : "",
    footer(turn));
}

/** Return a text. Only its beginning is shown where it is long, until a person asks for all of it. */
function longText(text, view) {
  if (text.length <= MOST_SHOWN + 200 || view.isUnfolded) return text;
  const shown = h("span", null, text.slice(0, MOST_SHOWN), "… ");
  shown.append(h("button", { class: "link", on: { click: () => { view.isUnfolded = true; fill(shown, text); } } }, `Show ${(text.length - MOST_SHOWN).toLocaleString()} more characters`));
  return shown;
}

/** Return an answer as a person reads it: data of a form as its fields. */
function answerText(text) {
  if (!text.startsWith("{")) return text;
  try {
    return Object.entries(JSON.parse(text)).map(([name, value]) => `${name} ${value}`).join(", ");
  } catch {
    return text;
  }
}

function toolChips(turn) {
  const calls = turn.steps.flatMap((step) => step.calls.map((call) => ({ ...call, step }))).filter((call) => call.kind === "tool");
  if (!calls.length) return "";
  const shown = calls.slice(-12);
  return h("ul", { class: "tools-used", "aria-label": "Tools" }, calls.length > shown.length ? h("li", { class: "muted" }, `${calls.length - shown.length} before`) : null,
    shown.map((call) => h("li", null, h("button", { class: `chip ${call.status}`, title: `Show step ${call.step.number}`, on: { click: () => showStep(turn, call.step.number) } }, call.name, call.ms === null ? null : h("span", { class: "muted" }, ` ${durationOf(call.ms)}`)))));
}

/** Show the question of a turn, as the API returns it, with its options. */
export function question(shape, { onAnswered = () => {} } = {}) {
  const asked = shape.waiting;
  if (!asked) return "";
  const give = (text) => attempt(async () => {
    await answer(shape.turn, text);
    await onAnswered();
  });
  return h("div", { class: "question", role: "group", "aria-label": "Question" },
    h("p", null, asked.question),
    asked.to ? h("p", { class: "muted" }, `Asked of ${asked.to}.`) : null,
    asked.schema ? formOf(asked.schema, give) : h("div", { class: "options" }, asked.options.map((option) => h("button", { class: option === asked.recommended ? "primary" : "", on: { click: () => give(option) } }, option))));
}

function footer(turn) {
  const path = turn.shape.path ?? [];
  const steps = turn.steps.length || path.length;
  const words = [steps ? `${steps} ${steps === 1 ? "step" : "steps"}` : null, secondsOf(turn.shape)].filter(Boolean).join(" · ");
  return h("p", { class: "foot" }, statusPill(turn.status), words ? h("button", { class: "link", "aria-label": `Show turn ${turn.position}: ${words}`, on: { click: () => showTurn(turn) } }, words) : null);
}
