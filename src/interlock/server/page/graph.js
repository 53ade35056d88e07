// The graph: placed top down, drawn once, and marked as the turn runs. A graph inside a node is opened in place.

import { fill, h, s } from "./dom.js";
import { place } from "./placing.js";
import { changed, shownStep, shownTurn, showNode, state } from "./store.js";
import { tracesOf } from "./turn.js";

const emptyDrawing = (key) => ({ key, nodes: new Map(), edges: new Map(), points: new Map() });
let drawn = emptyDrawing("");
let marked = "";
let scrolledTo = null;
// A large graph on which much has happened is marked over several frames, so that no frame is dropped.
const MARKS_A_FRAME = 40;
const PAD = 12;
// A graph that is wider than its pane is made smaller until its names are hardly read, and is scrolled from there on.
const SMALLEST = 0.85;
let opened = "";

/** Return the entry graph of what is shown: of the turn, or of the role that the next turn has. */
function entryGraph() {
  const { agent, role } = state;
  if (!agent) return null;
  const turn = shownTurn();
  const named = turn?.shape.graph ?? [...(turn?.scopes.values() ?? [])][0]?.graph;
  const inner = new Set(agent.graphs.flatMap((graph) => graph.nodes.flatMap((node) => Object.values(node.graphs))));
  const entries = agent.graphs.filter((graph) => !inner.has(graph.name));
  return agent.graphs.find((graph) => graph.name === named) ?? entries.find((graph) => role !== null && graph.name.endsWith(`.${role}`)) ?? entries.at(-1) ?? null;
}

export function paintGraph(pane) {
  const graph = entryGraph();
  if (!graph) return void fill(pane, h("p", { class: "empty" }, "Choose an agent."));
  const step = shownStep();
  // What runs inside a node is shown: the node is opened.
  if (step) for (let at = step.node.lastIndexOf("/"); at > 0; at = step.node.lastIndexOf("/", at - 1)) state.opened.add(step.node.slice(0, at));
  const key = `${state.agent.agent}|${graph.name}|${[...state.opened].sort()}`;
  if (key !== drawn.key || !pane.querySelector("svg")) draw(pane, graph, key);
  const session = `${state.agent.agent}|${state.session}`;
  if (session !== opened) {
    opened = session;
    pane.scrollTo(0, 0);
  }
  mark(step);
}

/** Return an SVG element for a graph. */
function canvas(plan, props) {
  const width = plan.width + 2 * PAD, height = plan.height + 2 * PAD;
  const svg = s("svg", { width, height, viewBox: `${-PAD} ${-PAD} ${width} ${height}`, ...props });
  svg.style.minWidth = `${Math.round(width * SMALLEST)}px`;
  return svg;
}

function draw(pane, graph, key) {
  const focus = pane.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  drawn = emptyDrawing(key);
  marked = "";
  const plan = place(graph, new Map(state.agent.graphs.map((one) => [one.name, one])), state.opened);
  const svg = canvas(plan, { class: "graph", role: "group", "aria-label": `Graph ${graph.name}` });
  drawPlan(svg, plan, "");
  fill(pane, h("h2", { class: "graph-name" }, graph.name), svg);
  if (focus !== undefined) pane.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
}

function drawPlan(parent, plan, within) {
  // Edges that are marked are moved to the end of the edges, so that those which share a lane with them do not cover them.
  const above = s("g");
  for (const edge of plan.edges) drawEdge(parent, edge, within, above);
  parent.append(above);
  for (const point of plan.points) {
    const element = s("circle", { cx: point.x, cy: point.y, r: 5, class: `point ${point.kind}` }, s("title", null, point.kind));
    drawn.points.set(`${within}|${point.kind}`, element);
    parent.append(element);
  }
  for (const node of plan.nodes) drawNode(parent, node, within);
}

function drawEdge(parent, edge, within, above) {
  const group = s("g", { class: "edge" },
    s("path", { d: edge.path }), s("path", { d: edge.head, class: "head" }),
    edge.label ? s("text", { x: edge.label.x, y: edge.label.y, class: "outcome", "text-anchor": edge.label.anchor }, edge.outcomes.join(", ")) : null,
    s("title", null, `${edge.source} → ${edge.target ?? "end"}: ${edge.outcomes.join(", ")}`));
  const count = s("g", { class: "count", visibility: "hidden" }, s("rect", { x: edge.count.x - 11, y: edge.count.y - 8, width: 22, height: 16, rx: 8 }),
    s("text", { x: edge.count.x, y: edge.count.y + 4, "text-anchor": "middle" }));
  parent.append(group, count);
  drawn.edges.set(`${within}|${edge.source}|${edge.target ?? ""}`, { group, count, raise: () => edge.side && above.before(group, count) });
}

function drawNode(parent, node, within) {
  const path = within ? `${within}/${node.name}` : node.name;
  const choose = () => showNode(path);
  const name = s("text", { x: node.x + 30, y: node.y + 27, class: "name" }, node.name);
  const times = s("text", { x: node.x + node.width - (node.inner ? 36 : 8), y: node.y + 27, class: "times", "text-anchor": "end" });
  const group = s("g", drawn.isStill ? { class: "node" } : { class: "node", role: "button", tabindex: "0", "data-focus": path, "aria-label": `Node ${path}`, "aria-pressed": "false", on: {
    click: choose,
    keydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose();
    },
  } }, s("rect", { x: node.x, y: node.y, width: node.width, height: node.height, rx: 10, class: "box" }),
    s("circle", { cx: node.x + 17, cy: node.y + 22, r: 4.5, class: "dot" }), name, times);
  parent.append(group);
  drawn.nodes.set(path, { group, times });
  if (!node.inner || drawn.isStill) return;
  const isOpen = node.plans.length > 0;
  const toggle = () => {
    if (isOpen) {
      for (const one of [...state.opened]) if (one === path || one.startsWith(`${path}/`)) state.opened.delete(one);
    } else state.opened.add(path);
    changed();
  };
  const x = node.x + node.width - 20;
  parent.append(s("g", { class: "toggle", role: "button", tabindex: "0", "data-focus": `${path}+`, "aria-expanded": String(isOpen), "aria-label": `Graph inside ${path}`, on: {
    click: toggle, keydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), toggle()),
  } }, s("circle", { cx: x, cy: node.y + 22, r: 9 }), s("path", { d: `M${x - 4} ${node.y + 22}h8${isOpen ? "" : `M${x} ${node.y + 18}v8`}` })));
  for (const plan of node.plans) {
    const inside = s("g", { transform: `translate(${plan.x} ${plan.y})` });
    inside.append(s("text", { x: plan.width / 2, y: -10, class: "inner-name", "text-anchor": "middle" }, plan.name));
    drawPlan(inside, plan, path);
    parent.append(inside);
  }
}

/** Return a picture of a graph with a path lit: nodes and edges of a path that breaks a claim. */
export function drawPath(graph, graphs, steps) {
  const kept = drawn;
  drawn = { ...emptyDrawing(""), isStill: true };
  const own = drawn, plan = place(graph, new Map(graphs.map((one) => [one.name, one])), new Set());
  const words = steps.map((step) => step.node ?? "end").join(", ");
  const svg = canvas(plan, { class: "graph still", role: "img", "aria-label": `Graph ${graph.name}, path: ${words}` });
  drawPlan(svg, plan, "");
  drawn = kept;
  const light = (edge) => {
    edge?.group.classList.add("broken");
    edge?.raise();
  };
  light(own.edges.get(`||${steps[0]?.node}`));
  steps.forEach((step, n) => {
    const node = own.nodes.get(step.node);
    if (node) {
      node.group.classList.add("broken");
      if (n === steps.length - 1 || steps[n + 1].node === null) node.group.classList.add("last");
      node.times.textContent = [node.times.textContent, n + 1].filter(Boolean).join(", ");
    }
    if (n + 1 < steps.length) light(own.edges.get(`|${step.node}|${steps[n + 1].node ?? ""}`));
  });
  return svg;
}

/** Mark what has run, what runs, and what is chosen. */
function mark(step) {
  const turn = shownTurn();
  const chosen = state.node ?? step?.node ?? null;
  const upTo = state.place.step ?? Infinity;
  const key = `${turn?.id}|${turn?.version}|${chosen}|${upTo}|${state.node}`;
  if (key === marked) return;
  marked = key;
  const traces = turn ? tracesOf(turn, upTo) : { nodes: new Map(), edges: new Map() };
  const running = new Set(), failed = new Set();
  for (const one of turn?.steps ?? []) {
    if (one.number > upTo) break;
    if (one.status === "running" && turn.status === "running") running.add(one.node);
    if (one.status === "error") failed.add(one.node);
    else failed.delete(one.node);
  }
  const waits = turn?.status === "waiting" && upTo === Infinity ? turn.steps.at(-1)?.node : null;
  let left = MARKS_A_FRAME;
  for (const [path, { group, times }] of drawn.nodes) {
    const count = traces.nodes.get(path) ?? 0;
    const name = ["node", count && "ran", running.has(path) && "running", failed.has(path) && "failed", path === waits && "waits", path === chosen && "chosen"].filter(Boolean).join(" ");
    const text = count > 1 ? `×${count}` : "";
    if (group.getAttribute("class") === name && times.textContent === text) continue;
    if (--left < 0) break;
    group.setAttribute("class", name);
    group.setAttribute("aria-pressed", String(path === chosen));
    times.textContent = text;
    group.setAttribute("aria-label", `Node ${path} ${text}`);
  }
  for (const [name, { group, count, raise }] of drawn.edges) {
    const taken = traces.edges.get(name) ?? 0;
    const kind = taken ? "edge taken" : "edge", text = taken > 99 ? "99+" : taken > 1 ? `×${taken}` : "";
    if (group.getAttribute("class") === kind && count.lastChild.textContent === text) continue;
    if (--left < 0) break;
    if (taken && group.getAttribute("class") !== kind) raise();
    group.setAttribute("class", kind);
    count.lastChild.textContent = text;
    count.setAttribute("visibility", text ? "visible" : "hidden");
  }
  const taken = [...traces.edges.keys()];
  for (const [name, point] of drawn.points) {
    const [within, kind] = name.split("|");
    const isPassed = taken.some((edge) => (kind === "start" ? edge.startsWith(`${within}||`) : edge.startsWith(`${within}|`) && edge.endsWith("|")));
    point.setAttribute("class", isPassed ? `point ${kind} passed` : `point ${kind}`);
  }
  if (left < 0) {
    marked = "";
    changed();
  }
  // The graph follows the node that runs, and shows the one that a person chose. Else it stays where it is: at the top, when a session is opened.
  const isFollowed = turn?.status === "running" || state.node !== null || state.place.step !== null;
  if (isFollowed && chosen !== scrolledTo && drawn.nodes.has(chosen)) {
    scrolledTo = chosen;
    // In the next frame, when the layout is known.
    requestAnimationFrame(() => drawn.nodes.get(scrolledTo)?.group.scrollIntoView({ block: "nearest", inline: "nearest" }));
  }
}
