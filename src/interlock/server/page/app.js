// Starts the page: signs in where the server asks for it, makes the parts, and paints them when something changed.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { makeChat } from "./chat.js";
import { paintGraph } from "./graph.js";
import { makeHeader } from "./header.js";
import { makeNode } from "./node.js";
import { signIn } from "./sign_in.js";
import { makeSteps, makeTurns } from "./steps.js";
import { attempt, changed, loadSessions, loadWaiting, onPaint, openPlace, state } from "./store.js";
import "./theme.js";

const POLL_MS = 3000;
const main = document.getElementById("main");
const notice = document.getElementById("notice");

function makeStudio() {
  const chat = makeChat(), turns = makeTurns(), steps = makeSteps(), node = makeNode();
  const graph = h("section", { class: "graph-pane", "aria-label": "Graph", tabindex: "0" });
  const tabs = h("div", { class: "tabs", role: "group", "aria-label": "Parts" },
    [["chat", "Chat"], ["graph", "Graph"], ["node", "Node"]].map(([tab, label]) => h("button", { "data-tab": tab, on: { click: () => { state.tab = tab; changed(); } } }, label)));
  const element = h("div", { class: "studio" }, h("h1", { class: "hidden" }, "Studio"), tabs, chat.element,
    h("div", { class: "centre" }, turns.element, h("div", { class: "work" }, graph, steps.element)), node.element);
  return {
    element,
    paint() {
      element.dataset.tab = state.tab;
      for (const button of tabs.children) button.setAttribute("aria-pressed", String(button.dataset.tab === state.tab));
      chat.paint();
      turns.paint();
      steps.paint();
      paintGraph(graph);
      node.paint();
    },
  };
}

async function start() {
  try {
    state.me = await get("/api/me");
  } catch (error) {
    if (error.status === 401) return signIn(main);
    return void fill(main, h("p", { class: "empty" }, error.message));
  }
  const header = makeHeader(document.getElementById("header"));
  const views = { studio: makeStudio() };
  const loading = new Set();
  // The other views are loaded when they are first shown.
  async function load(name) {
    if (loading.has(name)) return;
    loading.add(name);
    views[name] = (await import(`./${name}.js`)).make();
    changed();
  }
  let shown = null;
  onPaint(() => {
    const name = state.place.view;
    const view = views[name];
    header.paint();
    if (!view) return void load(name);
    if (shown !== name) {
      shown = name;
      fill(main, view.element);
      view.open?.();
    }
    view.paint();
    if (notice.textContent !== state.notice) notice.textContent = state.notice;
    document.title = state.place.view === "studio" && state.agent ? `${state.agent.agent} · Interlock studio` : "Interlock studio";
  });
  addEventListener("hashchange", openPlace);
  await attempt(async () => {
    const [{ agents }] = await Promise.all([get("/api/agents"), loadSessions()]);
    state.agents = agents;
    await loadWaiting();
  });
  await openPlace();
  setInterval(() => document.visibilityState === "visible" && loadWaiting().catch(() => {}), POLL_MS);
}

start();
