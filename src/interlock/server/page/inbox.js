// The inbox: turns that wait for a person, answered in one click.

import { get, path } from "./api.js";
import { fill, h, newId, refill } from "./dom.js";
import { question } from "./chat.js";
import { format } from "./router.js";
import { answer } from "./actions.js";
import { attempt, loadWaiting, state } from "./store.js";
import { givenText } from "./turn.js";
import { timeOf } from "./words.js";

export function make() {
  const list = h("div", { class: "cards" });
  const element = h("section", { class: "page", "aria-label": "Inbox" }, h("h1", null, "Inbox"), h("p", { class: "muted" }, `Questions that an agent has asked a person. It goes on as soon as one is answered. ${storedAs(state.me)}`), list);
  function paint() {
    refill(list, state.waiting.map((turn) => turn.turn).join(), () => (state.waiting.length ? state.waiting.map(card) : h("p", { class: "empty" }, "Nothing waits for an answer.")));
  }
  return { element, paint, open: () => attempt(loadWaiting) };
}

const storedAs = (me) => (me.is_local ? `The server has no API keys, so an answer is stored with the name “${me.name}”.` : `An answer is stored with your name, “${me.name}”.`);

function card(turn) {
  const input = h("input", { id: newId("answer"), placeholder: "Another answer", "data-focus": `answer-${turn.turn}`, class: "grow" });
  const send = async (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (!text) return;
    await attempt(async () => {
      await answer(turn.turn, text);
      await loadWaiting();
    });
  };
  return h("article", { class: "card", "aria-label": `Question of ${turn.agent}, session ${turn.session}` },
    h("div", { class: "row between" }, h("span", null, h("strong", null, turn.agent), h("span", { class: "muted" }, " asks. The message was:")), h("span", { class: "muted" }, `since ${timeOf(turn.started ?? turn.created)}`)),
    contextOf(turn),
    question(turn, { onAnswered: loadWaiting }),
    turn.waiting?.schema ? null : h("form", { class: "row", on: { submit: send } }, h("label", { for: input.id, class: "hidden" }, "Another answer"), input, h("button", null, "Send")),
    h("a", { href: format({ view: "studio", agent: turn.agent, session: turn.session }) }, "Open the conversation"));
}

/** Return what led to the question: the message, and the nodes that ran. */
function contextOf(turn) {
  const element = h("div", { class: "context" });
  attempt(async () => {
    const full = await get(path`/api/turns/${turn.turn}`);
    fill(element, h("p", { class: "given" }, givenText({ given: full.input })), full.path.length ? h("p", { class: "muted" }, `Then it ran ${full.path.map((node) => node.slice(node.lastIndexOf("/") + 1)).join(" → ")}.`) : null);
  });
  return element;
}
