// The panel on the right: the contract of a node, and what the chosen step read, called and changed.

import { h, refill } from "./dom.js";
import { pretty, showDifference, showFields, showValue } from "./json.js";
import { inline } from "./markdown.js";
import { fork } from "./actions.js";
import { attempt, shownStep, shownTurn, state } from "./store.js";
import { ENDED, statesAround, tokensOf, tokensOfStep } from "./turn.js";
import { durationOf, tokenText } from "./words.js";

export function makeNode() {
  const element = h("section", { class: "node-pane", "aria-label": "Node", tabindex: "0" });
  function paint() {
    const turn = shownTurn(), step = shownStep();
    const path = state.node ?? step?.node ?? null;
    const key = `${state.agent?.agent}|${path}|${turn?.id}|${turn?.status}|${step?.number}|${step?.status}|${step?.ms}|${step?.calls.map((call) => call.status)}`;
    refill(element, key, () => (path === null ? h("p", { class: "empty" }, "Choose a node of the graph to see its contract.") : content(path, turn, step)));
  }
  return { element, paint };
}

/** Return the graph that a node's path leads to, and the node's contract. */
function contractOf(path, step) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const graphs = state.agent?.graphs ?? [];
  const fits = (graph) => graph.nodes.find((node) => node.name === name);
  let graph = graphs.find((one) => one.name === step?.graph && fits(one));
  if (!graph) {
    // Without a run, the path is followed from node to node.
    const parts = path.split("/");
    const inner = new Set(graphs.flatMap((one) => one.nodes.flatMap((node) => Object.values(node.graphs))));
    let candidates = graphs.filter((one) => !inner.has(one.name));
    for (const part of parts.slice(0, -1)) {
      const behind = candidates.flatMap((one) => one.nodes.filter((node) => node.name === part).flatMap((node) => Object.values(node.graphs)));
      candidates = graphs.filter((one) => behind.includes(one.name));
    }
    graph = candidates.find(fits) ?? graphs.find(fits);
  }
  return { graph, node: graph && fits(graph) };
}

function content(path, turn, step) {
  const { graph, node } = contractOf(path, step);
  return [
    h("header", null, h("h2", null, path.slice(path.lastIndexOf("/") + 1)), graph ? h("p", { class: "muted" }, graph.name) : null, node?.summary ? h("p", null, inline(node.summary)) : null),
    step && turn ? stepPart(turn, step) : null,
    node ? contractPart(graph, node) : null,
  ];
}

const LABELS = {
  Untrusted: "A model, a tool or a person wrote it, so it never decides what runs next.",
  Trusted: "Written by the agent's own code.",
  Secret: "It must not leave its scope.",
  Control: "One of a fixed set of values, on which routing may depend.",
};
const MUST_NOT = { branch: "It has one outcome, so it does not decide which node runs next." };

function contractPart(graph, node) {
  const label = (name) => {
    const field = graph.state[name.replace(/\?$/, "")];
    return h("li", { class: "chip", title: field ? field.type : name }, name, (field?.labels ?? []).map((one) => h("span", { class: `label ${one.toLowerCase()}`, title: LABELS[one] }, one)));
  };
  const group = (title, items, kind) => (items.length ? [h("h4", null, title), h("ul", { class: `chips ${kind}` }, items)] : null);
  return h("section", { class: "part contract", "aria-label": "Contract" }, h("h3", null, "Contract"),
    group("may read", node.reads.map(label), "reads"),
    group("may write", node.writes.map(label), "writes"),
    group("may use", node.uses.map((use) => h("li", { class: "chip" }, use, node.graphs[use] ? h("span", { class: "muted" }, ` ${node.graphs[use]}`) : null)), "uses"),
    h("h4", null, "goes to"), h("ul", { class: "goes" }, Object.entries(node.goes).map(([outcome, target]) => h("li", null, h("span", { class: "outcome" }, outcome), " → ", target === "END" ? "end" : target))),
    group("must not", node.may_not.map((one) => h("li", { class: "chip", title: MUST_NOT[one] ?? `It has no way to use ${one}.` }, one)), "forbidden"));
}

const STATUS = { running: "running", success: "done", error: "failed", waiting: "asks a person" };

function stepPart(turn, step) {
  const tokens = tokensOfStep(step);
  const { before, after } = statesAround(turn, step);
  const writes = Object.keys(step.writes);
  const isSame = (name) => pretty(before[name]) === pretty(after[name]);
  const changes = writes.filter((name) => !isSame(name));
  return h("section", { class: "part step-part", "aria-label": `Step ${step.number}` },
    h("h3", null, `Step ${step.number} of turn ${turn.position}`, h("span", { class: `pill ${step.status}` }, STATUS[step.status]), step.ms === null ? null : h("span", { class: "muted" }, durationOf(step.ms)),
      tokens ? h("span", { class: "muted" }, tokenText(tokens)) : null),
    ENDED.includes(turn.status) || turn.status === "waiting" ? forkButton(turn, step) : null,
    step.error ? h("p", { class: "error" }, h("code", null, step.error.code), " ", step.error.message) : null,
    step.status === "waiting" ? questionPart(turn) : null,
    h("h4", null, "What it changed"),
    changes.length ? changes.map((name) => showDifference(name, before[name], after[name])) : h("p", { class: "muted" }, step.status === "running" || step.status === "waiting" ? "Nothing yet." : writes.length ? "It wrote what was there already." : "Nothing."),
    step.calls.length ? [h("h4", null, step.calls.length === 1 ? "1 call" : `${step.calls.length} calls`), step.calls.map(callPart)] : null,
    h("details", { class: "fold" }, h("summary", null, "What it read"), showFields(step.reads)),
    h("details", { class: "fold" }, h("summary", null, "State before"), showFields(before)),
    h("details", { class: "fold" }, h("summary", null, "State after"), showFields(after)));
}

/** Return what a step asks a person. The conversation and the inbox have the form for the answer. */
function questionPart(turn) {
  const asked = turn.status === "waiting" ? turn.shape.waiting : null;
  if (!asked) return null;
  return [h("h4", null, "What it asks"), h("p", { class: "asks" }, asked.question),
    asked.options.length ? h("p", { class: "muted" }, `Options: ${asked.options.join(", ")}.`) : null,
    asked.to ? h("p", { class: "muted" }, `Asked of ${asked.to}.`) : null,
    h("p", { class: "muted" }, "Answer it in the conversation or in the inbox.")];
}

/** Return the button that runs a turn again from a step. It can be pressed once until the server has answered. */
function forkButton(turn, step) {
  const button = h("button", { class: "small fork", title: "In a copy of this conversation. Calls before this step are not made again; its own calls and later ones are.", on: { click: async () => {
    button.disabled = true;
    await attempt(() => fork(turn, step.number));
    button.disabled = false;
  } } }, "↻ Run again from here");
  return button;
}

function callPart(call) {
  const tokens = tokensOf(call);
  return h("details", { class: `call ${call.status}` },
    h("summary", null, h("span", { class: `kind ${call.kind}` }, call.kind), h("span", { class: "name" }, call.name),
      call.ms === null ? null : h("span", { class: "muted" }, durationOf(call.ms)), tokens ? h("span", { class: "muted" }, tokenText(tokens)) : null),
    h("h5", null, "Given"), showValue(call.input),
    call.error ? [h("h5", null, "Error"), showValue(call.error)] : call.output === undefined ? h("p", { class: "muted" }, "It runs.") : [h("h5", null, "Returned"), showValue(call.output)]);
}
