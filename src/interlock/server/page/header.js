// The header: agent, session, views, connection, theme.

import { fill, h, newId, refill } from "./dom.js";
import { remove } from "./api.js";
import { format, go } from "./router.js";
import { attempt, changed, shownTurn, state } from "./store.js";
import { current, toggle } from "./theme.js";
import { statusPill, timeOf, titleOf } from "./words.js";

const LABELS = { studio: "Studio", inbox: "Inbox", operations: "Operations", verify: "Verify" };

export function makeHeader(element) {
  const agent = h("select", { id: newId("agent"), on: { change: () => go({ view: "studio", agent: agent.value, session: newestOf(agent.value) }) } });
  const session = h("select", { id: newId("session"), on: { change: () => go({ view: "studio", agent: state.agent.agent, session: session.value || null }) } });
  const fresh = h("button", { class: "small", on: { click: () => go({ view: "studio", agent: state.agent.agent }) } }, "New chat");
  const nav = h("nav", { "aria-label": "Views" });
  const status = h("span", { class: "status" });
  const theme = h("button", { class: "small icon", on: { click: () => { toggle(); changed(); } } });
  const leave = h("button", { class: "small", on: { click: () => attempt(async () => { await remove("/session"); location.reload(); }) } }, "Sign out");
  fill(element, h("a", { class: "brand", href: "#/studio" }, "Interlock"), nav, h("span", { class: "grow" }),
    h("div", { class: "chosen" }, h("label", { for: agent.id, class: "hidden" }, "Agent"), agent, h("label", { for: session.id, class: "hidden" }, "Session"), session, fresh), status, theme, leave);

  function newestOf(name) {
    return state.sessions.find((one) => one.agent === name)?.session ?? null;
  }

  function paint() {
    refill(nav, `${state.place.view}|${state.waiting.length}|${format(state.address)}`, () => Object.entries(LABELS).map(([view, label]) => h("a", {
      href: format(view === "studio" ? state.address : { view }), "data-focus": view, "aria-current": state.place.view === view ? "page" : null,
    }, label, view === "inbox" && state.waiting.length ? h("span", { class: "badge", "aria-label": `${state.waiting.length} waiting` }, state.waiting.length) : null)));
    refill(agent, state.agents.map((one) => one.agent).join(), () => state.agents.map((one) => h("option", { value: one.agent }, one.agent)));
    agent.value = state.agent?.agent ?? "";
    const mine = state.sessions.filter((one) => one.agent === state.agent?.agent);
    const isKnown = state.session === null || mine.some((one) => one.session === state.session);
    refill(session, mine.map((one) => one.session + one.changed + one.said).join() + `|${state.session}`, () => [
      state.session === null ? h("option", { value: "" }, "New chat") : null,
      isKnown ? null : h("option", { value: state.session }, state.session),
      mine.map((one) => h("option", { value: one.session }, `${titleOf(one)} · ${timeOf(one.changed)}`)),
    ]);
    session.value = state.session ?? "";
    const isStudio = state.place.view === "studio";
    element.querySelector(".chosen").hidden = !isStudio;
    const turn = isStudio ? shownTurn() : null;
    refill(status, `${turn?.status}|${state.stream}`, () => [turn ? statusPill(turn.status) : null, state.stream === "lost" ? h("span", { class: "pill error" }, "reconnecting") : null]);
    theme.textContent = current() === "dark" ? "☀" : "☾";
    theme.setAttribute("aria-label", current() === "dark" ? "Light theme" : "Dark theme");
    leave.hidden = !state.me || state.me.is_local;
  }
  return { paint };
}
