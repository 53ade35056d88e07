// Values of the state: short ones in a line, long ones folded; differences line by line.

import { h } from "./dom.js";

const INLINE = 60;
const MOST_LINES = 400;

export const pretty = (value) => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "nothing"));

/** Return a value in a few words, for the line of something that can be unfolded. */
export function summary(value) {
  if (value === null || value === undefined) return "none";
  if (typeof value === "string") return value.length > INLINE ? `${value.slice(0, INLINE - 1)}…` : value === "" ? "empty text" : value;
  if (Array.isArray(value)) return value.length === 1 ? "1 item" : `${value.length} items`;
  if (typeof value === "object") {
    const text = JSON.stringify(value);
    return text.length <= INLINE ? text : Object.keys(value).slice(0, 4).join(", ") + (Object.keys(value).length > 4 ? " …" : "");
  }
  return String(value);
}

const isShort = (value) => (typeof value === "string" ? value.length <= INLINE && !value.includes("\n") : value === null || typeof value !== "object" || JSON.stringify(value).length <= INLINE);

export function showValue(value) {
  return h("pre", { class: "value", tabindex: "0" }, cutLines(pretty(value)));
}

function cutLines(text) {
  const lines = text.split("\n");
  const most = text.length > 20000 ? `${text.slice(0, 20000)}\n…` : text;
  return lines.length > MOST_LINES ? [...lines.slice(0, MOST_LINES), `… ${lines.length - MOST_LINES} more lines`].join("\n") : most;
}

/** Return fields with their values, each folded where it is long. */
export function showFields(fields) {
  const names = Object.keys(fields);
  if (!names.length) return h("p", { class: "muted" }, "Nothing.");
  return h("dl", { class: "fields" }, names.map((name) => [
    h("dt", null, name),
    h("dd", null, isShort(fields[name]) ? h("span", { class: "short" }, summary(fields[name]))
      : h("details", null, h("summary", null, summary(fields[name])), showValue(fields[name]))),
  ]));
}

/** Return the lines of two values with what was removed and added. */
export function differences(before, after) {
  const a = pretty(before).split("\n"), b = pretty(after).split("\n");
  if (a.length > MOST_LINES || b.length > MOST_LINES) return [...a.slice(0, 40).map((line) => ["-", line]), ...b.slice(0, 40).map((line) => ["+", line]), [" ", "…"]];
  // The longest common subsequence of lines.
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const found = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) found.push([" ", a[i++]]), j++;
    else if (i < a.length && (j >= b.length || length[i + 1][j] >= length[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

const CONTEXT = 2;

/** Show a field that changed: lines around the differences only. */
export function showDifference(name, before, after) {
  if (before === undefined || (isShort(before) && isShort(after)))
    return h("div", { class: "change" }, h("span", { class: "field" }, name),
      before === undefined ? null : [h("del", null, summary(before)), h("span", { class: "muted", "aria-hidden": "true" }, "→")],
      isShort(after) ? h("ins", null, summary(after)) : h("details", null, h("summary", null, h("ins", null, summary(after))), showValue(after)));
  const lines = differences(before, after);
  const near = lines.map((_, n) => lines.slice(Math.max(0, n - CONTEXT), n + CONTEXT + 1).some(([mark]) => mark !== " "));
  const shown = [];
  lines.forEach(([mark, text], n) => {
    if (near[n]) shown.push(h(mark === "+" ? "ins" : mark === "-" ? "del" : "span", null, `${mark} ${text}\n`));
    else if (near[n - 1]) shown.push(h("span", { class: "muted" }, "  ⋯\n"));
  });
  const count = (mark) => lines.filter(([one]) => one === mark).length;
  return h("details", { class: "change" },
    h("summary", null, h("span", { class: "field" }, name), h("span", { class: "muted" }, `+${count("+")} −${count("-")} lines`)),
    h("pre", { class: "value diff", tabindex: "0" }, shown));
}
