// Asks for an API key, which the server exchanges for a cookie: scripts of the page cannot read it afterwards.

import { post } from "./api.js";
import { fill, h, newId } from "./dom.js";

export function signIn(main) {
  const key = h("input", { id: newId("key"), type: "password", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "error", role: "alert" });
  const form = h("form", { class: "sign-in", on: { submit: async (event) => {
    event.preventDefault();
    try {
      await post("/session", { key: key.value.trim() });
      location.reload();
    } catch (error) {
      problem.textContent = error.status === 401 ? "The server does not know this key." : error.message;
    }
  } } }, h("h1", null, "Interlock studio"), h("label", { for: key.id }, "API key"), key, h("button", { class: "primary" }, "Sign in"), problem,
  h("p", { class: "muted" }, "An operator creates a key by ‘interlock keys add NAME’."));
  fill(main, form);
  key.focus();
}
