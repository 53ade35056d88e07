// Verify: what each agent guarantees, and how that is known.

import { get, path } from "./api.js";
import { fill, h, refill } from "./dom.js";
import { drawPath } from "./graph.js";
import { format } from "./router.js";
import { attempt, state } from "./store.js";

const HOW = { proved: "follows from the code on all paths", trusted: "the proofs rest on it", agrees: "two descriptions were compared", decided: "every case was checked", seen: "turns were run, which is no proof" };

export function make() {
  const list = h("div", { class: "filters", role: "group", "aria-label": "Agents" }), found = h("div", { "aria-live": "polite" });
  const element = h("section", { class: "page", "aria-label": "Verify" }, h("h1", null, "Verify"),
    h("p", { class: "muted" }, "What each agent guarantees, whatever a model or a person says to it, and how that is known."), list, found);
  const results = new Map();
  let shown = null;

  function paint() {
    const name = state.place.agent ?? state.agents[0]?.agent;
    refill(list, `${state.agents.map((one) => one.agent)}|${name}`, () => state.agents.map((one) => h("a", { class: "turn-chip agent", href: format({ view: "verify", agent: one.agent }), "data-focus": one.agent, "aria-current": one.agent === name ? "page" : null }, one.agent)));
    if (name !== undefined && name !== shown) show(name);
  }

  async function show(name) {
    shown = name;
    if (!results.has(name)) {
      fill(found, h("p", { class: "muted" }, `Verifying ${name}: its contracts, both engines, its document and its invariants. This takes some seconds.`));
      const [result, agent] = (await attempt(() => Promise.all([get(path`/api/agents/${name}/guarantees`), get(path`/api/agents/${name}`)]))) ?? [];
      if (result) results.set(name, { ...result, graphs: agent.graphs });
    }
    if (shown !== name) return;
    const result = results.get(name);
    if (!result) {
      shown = null;
      return void fill(found, h("p", { class: "empty" }, "The agent could not be verified."));
    }
    const broken = result.guarantees.filter((one) => !one.holds);
    const groups = new Map();
    for (const one of result.guarantees.filter((one) => one.holds)) groups.set(one.graph, [...(groups.get(one.graph) ?? []), one]);
    // The whole agent first, then the graph that is entered, then those inside it.
    const ordered = [...groups].sort(([a], [b]) => placeOf(a, result.graphs) - placeOf(b, result.graphs));
    fill(found, h("div", { class: "cards" }, h("h2", { class: broken.length ? "verdict differs" : "verdict same" }, broken.length ? `${broken.length} of ${result.guarantees.length} guarantees are broken` : `All ${result.guarantees.length} guarantees hold`),
      h("ul", { class: "kinds", "aria-label": "How it is known" }, Object.entries(HOW).map(([how, says]) => {
        const count = result.guarantees.filter((one) => one.holds && one.how === how).length;
        return count ? h("li", null, pillOf(how), h("strong", null, count), h("span", { class: "muted" }, says)) : null;
      })),
      broken.length ? h("section", { class: "card", "aria-label": "Broken" }, broken.map((one) => brokenOne(one, result.graphs))) : null,
      ordered.map(([graph, ones]) => h("section", { class: "card", "aria-label": graph === null ? `Agent ${name}` : `Graph ${graph}` }, h("h3", null, graph === null ? `${name}: the whole agent` : `Graph ${graph}`), together(ones).map(proved)))));
  }
  return { element, paint, open() { shown = null; } };
}

const pillOf = (how) => h("span", { class: `pill ${how === "seen" || how === "trusted" ? "waiting" : "success"}` }, how);

/** Return where the card of a graph stands: 0 for the whole agent. Entry graphs come last in the list of an agent. */
const placeOf = (graph, graphs) => (graph === null ? 0 : graphs.length - graphs.findIndex((one) => one.name === graph));

/** Return guarantees that follow one another and have the same proof as one entry. */
function together(guarantees) {
  const entries = [];
  for (const one of guarantees) {
    const last = entries.at(-1);
    if (last && last[0].how === one.how && last[0].proof === one.proof) last.push(one);
    else entries.push([one]);
  }
  return entries;
}

const proved = (ones) => h("div", { class: "guarantee" }, h("span", null, pillOf(ones[0].how)),
  h("div", null, h("ul", null, ones.map((one) => h("li", null, one.guarantee))), h("p", { class: "muted" }, ones[0].proof)));

const brokenOne = (one, graphs) => h("div", { class: "guarantee" }, h("span", null, h("span", { class: "pill error" }, "broken")),
  h("div", null, h("p", null, one.guarantee), h("p", { class: "muted" }, one.proof), counterExample(one, graphs.find((graph) => graph.name === one.graph), graphs)));

/** Show the path that breaks a claim: its steps in words, and lit on the graph. */
function counterExample(one, graph, graphs) {
  if (!one.path.length || !graph) return null;
  const nodes = one.path.filter((step) => step.node !== null).length;
  return h("figure", { class: "counter-example" },
    h("figcaption", null, h("h3", null, `A shortest path that breaks it, ${nodes} ${nodes === 1 ? "node" : "nodes"}`),
      h("ol", { class: "path" }, one.path.map((step) => h("li", null, h("code", null, step.node ?? "end"), step.outcome ? h("span", { class: "muted" }, ` returns ${step.outcome}`) : null)))),
    h("div", { class: "graph-box", tabindex: "0", role: "region", "aria-label": `The path on ${graph.name}` }, drawPath(graph, graphs, one.path)));
}
