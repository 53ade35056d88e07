// Operations: turns and sessions with filters, what runs, what failed by code, and how it went over time.

import { get } from "./api.js";
import { chartOf, columns } from "./chart.js";
import { fill, h, newId, refill } from "./dom.js";
import { format } from "./router.js";
import { cancel } from "./actions.js";
import { attempt, state } from "./store.js";
import { durationOf, nameOf, secondsOf, statusPill, timeOf } from "./words.js";

const STATUSES = ["open", "queued", "ready", "running", "waiting", "success", "error", "cancelled"];
const REFRESH_MS = 3000;
const MOST_COLUMNS = 24, FEWEST_COLUMNS = 4;
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const SPANS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND).concat([1, 2, 5, 10, 15, 30].map((n) => n * MINUTE), [1, 2, 3, 6, 12].map((n) => n * HOUR), [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY));

const tokensOf = (turn) => (turn.usage.input_tokens ?? 0) + (turn.usage.output_tokens ?? 0);
const isOpen = (turn) => ["queued", "ready", "running", "waiting"].includes(turn.status);

export function make() {
  const filters = { agent: "", status: "", session: "", error: "" };
  const field = (name, element) => {
    element.addEventListener("input", () => {
      filters[name] = element.value;
      load();
    });
    element.id = newId(name);
    return h("label", { for: element.id }, name, element);
  };
  const select = (...options) => h("select", { class: "small" }, h("option", { value: "" }, "any"), options);
  const agent = select(), error = select();
  const status = select(STATUSES.map((name) => h("option", { value: name }, nameOf(name))));
  const session = h("input", { class: "small", type: "search", placeholder: "any" });
  const charts = h("div", { class: "grid" }), table = h("div"), workers = h("section", { class: "workers", "aria-label": "Workers" });
  const more = h("button", { class: "small", on: { click: () => load({ isMore: true }) } }, "Older turns");
  let kind = "turns";
  const kinds = h("div", { class: "segments", role: "group", "aria-label": "What is listed" }, ["turns", "sessions"].map((name) => h("button", { "data-kind": name, on: { click: () => {
    kind = name;
    load();
  } } }, name === "turns" ? "Turns" : "Sessions")));
  const element = h("section", { class: "page", "aria-label": "Operations" }, h("h1", null, "Operations"), workers, charts,
    h("div", { class: "filters", role: "search", "aria-label": "Filters" }, kinds, field("agent", agent), field("status", status), field("session", session), field("error", error)), table, h("p", { class: "row" }, more));
  let turns = [], sessions = [], next = null, isShown = false, asked = 0;

  async function load({ isMore = false } = {}) {
    const query = new URLSearchParams({ limit: "200" });
    for (const name of ["agent", "status", "session"]) if (filters[name]) query.set(name, filters[name]);
    if (isMore && next) query.set("before", next);
    const number = ++asked;
    const found = await attempt(() => Promise.all([get(`/api/turns?${query}`), kind === "sessions" ? get(`/api/sessions?${new URLSearchParams({ limit: "200", ...(filters.agent ? { agent: filters.agent } : {}) })}`) : { sessions: [] }]));
    if (!found || number !== asked) return;
    turns = isMore ? [...turns, ...found[0].turns] : found[0].turns;
    sessions = found[1].sessions;
    next = found[0].next;
    show();
  }

  function show() {
    for (const button of kinds.children) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    const codes = [...new Set(turns.map((turn) => turn.error?.code).filter(Boolean))].sort();
    if (error.dataset.key !== codes.join()) {
      error.dataset.key = codes.join();
      fill(error, h("option", { value: "" }, "any"), codes.map((code) => h("option", { value: code }, code)));
      error.value = codes.includes(filters.error) ? filters.error : filters.error = "";
    }
    const shown = turns.filter((turn) => !filters.error || turn.error?.code === filters.error);
    fill(charts, shown.length ? [overTime(shown, "Turns", () => 1), overTime(shown, "Seconds that turns took", (turn) => (turn.ended && turn.started ? (Date.parse(turn.ended) - Date.parse(turn.started)) / 1000 : 0)),
      overTime(shown, "Tokens", tokensOf, "No model has counted tokens."), errors(shown)] : null);
    more.hidden = next === null || kind === "sessions";
    const inSession = (one) => (!filters.session || one.session === filters.session) && (!filters.status || (filters.status === "open" ? isOpen(one) : one.status === filters.status));
    const rows = kind === "turns" ? shown.map(turnRow) : sessions.filter(inSession).map(sessionRow);
    const head = kind === "turns" ? ["status", "agent", "session", "turn", "started", "took", "attempts", "tokens", "error", ""] : ["status", "agent", "session", "about", "turns", "changed"];
    refill(table, [kind, ...Object.values(filters), ...(kind === "turns" ? shown.map((one) => `${one.turn}${one.status}${one.attempts}`) : sessions.map((one) => one.last_turn + one.status))].join(), () => (rows.length ? tableOf(head, rows) : h("p", { class: "empty" }, kind === "turns" ? "No turn fits the filters." : "No session fits the filters.")));
  }

  const tableOf = (head, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": kind === "turns" ? "Turns" : "Sessions" }, h("table", null,
    h("thead", null, h("tr", null, head.map((name) => (name ? h("th", { scope: "col", class: ["took", "attempts", "tokens", "turns"].includes(name) ? "number" : null }, name) : h("td"))))), h("tbody", null, rows)));

  const short = (name) => h("span", { title: name }, name.length > 24 ? `${name.slice(0, 12)}…` : name);

  function turnRow(turn) {
    return h("tr", null, h("td", null, statusPill(turn.status)), h("td", null, turn.agent + (turn.role ? ` (${turn.role})` : "")), h("td", null, short(turn.session)),
      h("td", null, h("a", { href: format({ view: "studio", agent: turn.agent, session: turn.session, turn: turn.turn }), "data-focus": turn.turn, "aria-label": `Turn ${turn.position} of session ${turn.session}` }, turn.position)),
      h("td", null, timeOf(turn.started ?? turn.created)), h("td", { class: "number" }, secondsOf(turn) ?? ""), h("td", { class: "number" }, turn.attempts), h("td", { class: "number" }, tokensOf(turn) || ""),
      h("td", { class: "wide" }, turn.error ? [h("code", null, turn.error.code), " ", turn.error.message] : ""),
      h("td", null, isOpen(turn) ? h("button", { class: "small danger", "data-focus": `cancel-${turn.turn}`, "aria-label": `Cancel turn ${turn.position} of session ${turn.session}`, on: { click: () => attempt(() => cancel(turn.turn)).then(() => load()) } }, "Cancel") : ""));
  }

  function sessionRow(one) {
    return h("tr", null, h("td", null, statusPill(one.status)), h("td", null, one.agent), h("td", null, h("a", { href: format({ view: "studio", agent: one.agent, session: one.session }), "data-focus": `${one.agent}/${one.session}`, "aria-label": `Session ${one.session}` }, short(one.session))),
      h("td", { class: "wide" }, one.said || one.session), h("td", { class: "number" }, one.turns), h("td", null, timeOf(one.changed)));
  }

  async function loadWorkers() {
    if (!state.me.is_local && !state.me.roles.includes("operator")) return;
    const found = await attempt(() => get("/api/workers"));
    if (!found) return;
    fill(workers, found.workers.length ? found.workers.map((one) => h("div", { class: "worker" }, h("strong", null, "Worker "), h("code", null, one.worker), one.is_this ? h("span", { class: "muted" }, " (this server)") : null,
      h("span", { class: "muted" }, `, ${one.leases.length} running`),
      one.leases.length ? h("ul", null, one.leases.map((lease) => h("li", null, h("a", { href: format({ view: "studio", agent: lease.agent, session: lease.session, turn: lease.turn }) }, `${lease.agent}, turn ${lease.position} of ${lease.session}`),
        h("span", { class: "muted" }, ` lease ends in ${durationOf(lease.seconds * 1000)}${lease.attempts > 1 ? `, attempt ${lease.attempts}` : ""}`)))) : null)) : h("p", { class: "muted" }, "No worker runs a turn of yours."));
  }

  function paint() {
    if (agent.children.length !== state.agents.length + 1) fill(agent, h("option", { value: "" }, "any"), state.agents.map((one) => h("option", { value: one.agent }, one.agent)));
  }

  async function refresh() {
    if (!element.isConnected) return void (isShown = false);
    if (document.visibilityState === "visible" && turns.length <= 200) await Promise.all([load(), loadWorkers()]);
    setTimeout(refresh, REFRESH_MS);
  }

  return { element, paint, open() {
    load();
    loadWorkers();
    if (!isShown) setTimeout(refresh, REFRESH_MS);
    isShown = true;
  } };
}

/** Return a chart of a sum over time, from the oldest turn that is listed to the newest. */
function overTime(turns, title, valueOf, none = null) {
  if (none !== null && !turns.some(valueOf)) return h("div", { class: "plot" }, h("p", { class: "caption" }, title), h("p", { class: "muted" }, none));
  const times = turns.map((turn) => Date.parse(turn.started ?? turn.created));
  const { from, step, count } = axisOf(Math.min(...times), Math.max(...times));
  const sums = new Array(count).fill(0);
  turns.forEach((turn, n) => { sums[Math.floor((times[n] - from) / step)] += valueOf(turn); });
  const form = step >= DAY ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(step < MINUTE ? { second: "2-digit" } : {}) };
  return columns(sums.map((value, n) => ({ label: new Date(from + n * step).toLocaleString([], form), value })), title, { width: 240, height: 110 });
}

/** Return where a time axis begins, and how many columns of a usual length it has, with one to spare at its end. */
function axisOf(first, last) {
  const zone = new Date(first).getTimezoneOffset() * MINUTE;
  const step = SPANS.find((span) => (last - first) / span <= MOST_COLUMNS - 2) ?? SPANS.at(-1);
  const from = Math.floor((first - zone) / step) * step + zone;
  return { from, step, count: Math.max(Math.floor((last - from) / step) + 2, FEWEST_COLUMNS) };
}

function errors(turns) {
  const counts = new Map();
  for (const turn of turns) if (turn.error) counts.set(turn.error.code, (counts.get(turn.error.code) ?? 0) + 1);
  if (!counts.size) return h("div", { class: "plot" }, h("p", { class: "caption" }, "Errors by code"), h("p", { class: "muted" }, "No turn failed."));
  return chartOf([...counts].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([label, value]) => ({ label, value })), { title: "Errors by code" });
}
