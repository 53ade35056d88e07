// A form made of the JSON schema of an answer: buttons for a choice, fields for data. It is checked before it is sent.

import { fill, h, newId } from "./dom.js";

const isChoice = (schema) => Array.isArray(schema.enum) || schema.type === "boolean";
const choicesOf = (schema) => (schema.enum ?? [true, false]).map((value) => ({ value, text: value === true ? "Yes" : value === false ? "No" : String(value) }));

/** Return a form for a schema. `give` gets the answer as JSON text. */
export function formOf(schema, give) {
  if (isChoice(schema)) return h("div", { class: "options" }, choicesOf(schema).map(({ value, text }) => h("button", { type: "button", class: value === schema.default ? "primary" : "", on: { click: () => give(JSON.stringify(value)) } }, text)));
  const isObject = schema.type === "object";
  const required = new Set(isObject ? schema.required ?? [] : ["answer"]);
  const fields = Object.entries(isObject ? schema.properties : { answer: { title: "Answer", ...schema } }).map(([name, one]) => fieldOf(name, one, required.has(name)));
  const send = (event) => {
    event.preventDefault();
    const wrong = fields.filter((field) => !field.check());
    if (wrong.length) return void wrong[0].focus();
    const found = Object.fromEntries(fields.map((field) => [field.name, field.value()]).filter(([, value]) => value !== undefined));
    give(JSON.stringify(isObject ? found : found.answer));
  };
  return h("form", { class: "answer-form", novalidate: true, on: { submit: send } }, fields.map((field) => field.element), h("div", { class: "row" }, h("button", { class: "primary" }, "Answer")));
}

function fieldOf(name, schema, isRequired) {
  const id = newId("field"), problem = h("p", { class: "problem", id: `${id}-problem` });
  const label = schema.title ?? name.replaceAll("_", " ");
  const note = [schema.description, isRequired || schema.type === "boolean" ? null : "optional"].filter(Boolean).join(", ");
  const hint = note ? h("span", { class: "muted" }, ` ${note}`) : null;
  const made = Array.isArray(schema.enum) ? radios(id, label, hint, schema) : schema.type === "boolean" ? checkbox(id, label, hint, schema) : textbox(id, label, hint, schema);
  const check = () => {
    const text = problemOf(made.value(), schema, isRequired) ?? (made.isUnreadable?.() ? "Write a number." : null);
    fill(problem, text);
    for (const input of made.inputs) {
      input.setAttribute("aria-invalid", String(text !== null));
      input.setAttribute("aria-describedby", problem.id);
    }
    return text === null;
  };
  return { name, value: made.value, check, focus: () => made.inputs[0].focus(), element: h("div", { class: "field" }, made.element, problem) };
}

/** Return what is wrong with a value, or null. The server checks the same again. */
function problemOf(value, schema, isRequired) {
  if (value === undefined) return isRequired ? (schema.enum ? "Choose one." : schema.type === "string" || !schema.type ? "Write something." : "Write a number.") : null;
  if (typeof value === "string" && [...value].length < (schema.minLength ?? 0)) return `Write at least ${schema.minLength} characters.`;
  if (typeof value === "string" && [...value].length > (schema.maxLength ?? Infinity)) return `Write at most ${schema.maxLength} characters.`;
  if (typeof value !== "number" || schema.enum) return null;
  if (schema.type === "integer" && !Number.isSafeInteger(value)) return "Write a whole number.";
  if (value < (schema.minimum ?? -Infinity)) return `At least ${schema.minimum}.`;
  return value > (schema.maximum ?? Infinity) ? `At most ${schema.maximum}.` : null;
}

function radios(id, label, hint, schema) {
  const choices = choicesOf(schema).map(({ value, text }) => {
    const input = h("input", { type: "radio", name: id, id: newId("choice"), checked: value === schema.default });
    return { value, input, element: h("label", { class: "choice", for: input.id }, input, text) };
  });
  return { element: h("fieldset", null, h("legend", null, label, hint), choices.map((one) => one.element)), inputs: choices.map((one) => one.input), value: () => choices.find((one) => one.input.checked)?.value };
}

function checkbox(id, label, hint, schema) {
  const input = h("input", { type: "checkbox", id, checked: schema.default === true });
  return { element: h("label", { class: "choice", for: id }, input, label, hint), inputs: [input], value: () => input.checked };
}

function textbox(id, label, hint, schema) {
  const isText = schema.type === "string";
  const input = isText ? h("input", { id, value: schema.default ?? "", autocomplete: "off" })
    : h("input", { id, type: "number", step: schema.type === "integer" ? "1" : "any", min: schema.minimum, max: schema.maximum, value: schema.default ?? "" });
  const value = () => (input.value === "" ? undefined : isText ? input.value : Number(input.value));
  return { element: [h("label", { for: id }, label, hint), input], inputs: [input], value, isUnreadable: () => input.validity.badInput };
}
