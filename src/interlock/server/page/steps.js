// The steps of the shown turn, and the turns of the session above them.

import { path, post } from "./api.js";
import { endOf, fill, h, refill } from "./dom.js";
import { attempt, backToLive, changed, isLive, loadTimes, loadTurn, shownStep, shownTurn, showStep, showTurn, state } from "./store.js";
import { ENDED, tokensOfStep } from "./turn.js";
import { durationOf, tokenText } from "./words.js";

const ROWS_A_FRAME = 20;

export function makeTurns() {
  const list = h("div", { class: "turns", role: "group", "aria-label": "Turns of the session" });
  const name = h("span", { class: "muted turns-name", "aria-hidden": "true" }, "Turns");
  const live = h("button", { class: "live", on: { click: backToLive } });
  const replay = h("button", { class: "small", title: "Run the turn again with today's code, without calling a model or a tool, and compare.", on: { click: () => run(shownTurn()) } }, "Replay");
  const result = h("div", { class: "replay", role: "status" });
  let replayed = null, scrolled = "";

  async function run(turn) {
    fill(result, h("span", { class: "muted" }, "Replaying the turn without calling a model or a tool …"));
    replayed = turn.id;
    const found = await attempt(() => post(path`/api/turns/${turn.id}/replay`));
    if (replayed !== turn.id) return;
    if (!found) return void fill(result);
    fill(result, found.is_same ? h("span", { class: "same" }, "Replayed with today's code: the same result, step by step.")
      : h("details", { open: true }, h("summary", { class: "differs" }, `Replayed with today's code: ${found.differences.length === 1 ? "1 difference" : `${found.differences.length} differences`}`), h("ul", null, found.differences.map((one) => h("li", null, one)))));
  }

  function paint() {
    const shown = shownTurn();
    const key = state.turns.map((turn) => `${turn.position}${turn.status}`).join() + `|${shown?.position}|${isLive()}`;
    refill(list, key, () => state.turns.map((turn) => h("button", { class: `turn-chip ${turn.status}`, "data-focus": turn.id, "aria-pressed": String(turn === shown), "aria-label": `Turn ${turn.position}: ${turn.status}`, on: { click: () => showTurn(turn) } }, turn.position)));
    if (scrolled !== key + state.tab) requestAnimationFrame(() => list.querySelector('[aria-pressed="true"]')?.scrollIntoView({ block: "nearest", inline: "nearest" }));
    scrolled = key + state.tab;
    name.hidden = live.hidden = !state.turns.length;
    live.className = isLive() ? "live on" : "live";
    live.textContent = isLive() ? "Live" : "Back to live";
    live.disabled = isLive();
    const isOver = shown && ENDED.includes(shown.status);
    const mayReplay = state.me && (state.me.is_local || state.me.roles.includes("operator"));
    replay.hidden = !isOver || !mayReplay;
    if (replayed !== null && shown?.id !== replayed) {
      replayed = null;
      fill(result);
    }
  }
  return { element: h("div", { class: "bar" }, h("div", { class: "row" }, name, list, h("span", { class: "grow" }), replay, live), result), paint };
}

export function makeSteps() {
  const list = h("ol", { class: "steps", "aria-label": "Steps" });
  const none = h("p", { class: "muted none" }, "What each node does appears here.");
  const element = h("section", { class: "steps-pane", "aria-label": "Steps of the turn", tabindex: "0" }, h("h2", null, "Steps"), none, list);
  const end = endOf(element, 80);
  let turnId = null, shown = new Map();
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    buttons[at]?.focus();
    buttons[at]?.click();
  });

  function paint() {
    const turn = shownTurn();
    if (turn && !turn.isLoaded && !["queued", "ready"].includes(turn.status)) attempt(() => loadTurn(turn));
    if (turn) attempt(() => loadTimes(turn));
    if ((turn?.position ?? null) !== turnId || !turn || turn.steps.length < shown.size) {
      turnId = turn?.position ?? null;
      shown = new Map();
      fill(list);
    }
    none.hidden = Boolean(turn);
    if (!turn) return;
    const chosen = shownStep();
    let made = 0;
    for (const step of turn.steps) {
      let row = shown.get(step.run);
      if (!row) {
        // A long turn that is opened at once is listed over several frames, so that no frame is dropped.
        if (++made > ROWS_A_FRAME) {
          changed();
          break;
        }
        row = makeRow(turn, step);
        shown.set(step.run, row);
        list.append(row.item);
      }
      const key = `${step.status}|${Object.keys(step.writes)}|${step.calls.length}|${step.ms}|${step.tokens?.output_tokens}|${step === chosen}`;
      if (row.key !== key) paintRow(row, step, step === chosen, key);
    }
    if (isLive() && made) end.keep();
  }
  return { element, paint };
}

const WORDS = { running: "running", waiting: "asks a person" };

function makeRow(turn, step) {
  const button = h("button", { "data-focus": `step-${step.number}`, on: { click: () => showStep(turn, step.number) } });
  return { item: h("li", { class: `depth-${Math.min(step.depth, 3)}` }, button), button, key: "" };
}

function paintRow(row, step, isChosen, key) {
  row.key = key;
  const wrote = Object.keys(step.writes), tokens = tokensOfStep(step);
  row.button.className = `step ${step.status}`;
  row.button.setAttribute("aria-current", isChosen ? "step" : "false");
  fill(row.button,
    h("span", { class: "number" }, step.number),
    h("span", { class: "what" }, h("span", { class: "name", title: step.node }, step.name),
      h("span", { class: "wrote" }, step.error ? step.error.code : wrote.length ? wrote.join(", ") : WORDS[step.status] ?? "nothing written")),
    h("span", { class: "ms" }, step.ms === null ? null : h("span", { class: "took" }, durationOf(step.ms)), step.calls.length ? h("span", { class: "calls" }, `${step.calls.length} ${step.calls.length === 1 ? "call" : "calls"}`) : null,
      tokens ? h("span", { class: "tokens", title: "tokens read and written by models" }, tokenText(tokens)) : null));
}
