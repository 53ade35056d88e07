// Model text as elements: paragraphs, lists, tables, code. Links and images stay text, so that showing an answer loads nothing.

import { h } from "./dom.js";
import { showTable } from "./table.js";

const INLINE = /(`[^`\n]+`)|\*\*([^*\n]+)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\s][^*\n]*)\*(?![\w*])|(!?)\[([^\]\n]*)\]\(([^)\s]*)[^)\n]*\)/g;

/** Return a line as text nodes and simple elements. */
export function inline(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [, code, strong, strong2, emphasis, image, label, target] = found;
    if (code !== undefined) parts.push(h("code", null, code.slice(1, -1)));
    else if (strong !== undefined || strong2 !== undefined) parts.push(h("strong", null, strong ?? strong2));
    else if (emphasis !== undefined) parts.push(h("em", null, emphasis));
    else parts.push(h("span", { class: "target" }, `${image ? "image: " : ""}${label}${label && target ? " " : ""}${target ? `(${target})` : ""}`));
  }
  parts.push(text.slice(end));
  return parts.filter((part) => part !== "");
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
const isRule = (line) => line !== undefined && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(line) && line.includes("-");

/** Return the blocks of a text. `isOpen` is set while the text still grows: the last table has no toolbar yet. */
export function render(text, { isOpen = false } = {}) {
  const lines = text.split("\n");
  const blocks = [];
  let n = 0;
  while (n < lines.length) {
    const line = lines[n];
    if (!line.trim()) n++;
    else if (line.startsWith("```")) {
      const end = lines.findIndex((one, at) => at > n && one.startsWith("```"));
      blocks.push(h("pre", { tabindex: "0" }, h("code", null, lines.slice(n + 1, end < 0 ? undefined : end).join("\n"))));
      n = end < 0 ? lines.length : end + 1;
    } else if (line.includes("|") && isRule(lines[n + 1])) {
      const rows = [];
      const head = cells(line);
      for (n += 2; n < lines.length && lines[n].includes("|"); n++) rows.push(cells(lines[n]));
      blocks.push(showTable(head, rows, { hasTools: !(isOpen && n >= lines.length) }));
    } else if (/^#{1,6} /.test(line)) {
      blocks.push(h("p", { class: "heading" }, inline(line.replace(/^#+ /, ""))));
      n++;
    } else if (/^\s*([-*+]|\d+[.)]) /.test(line)) n = list(lines, n, blocks);
    else n = paragraph(lines, n, blocks);
  }
  return blocks;
}

function list(lines, n, blocks) {
  const isNumbered = /^\s*\d/.test(lines[n]);
  const items = [];
  for (; n < lines.length && /^\s*([-*+]|\d+[.)]) /.test(lines[n]); n++) items.push(h("li", null, inline(lines[n].replace(/^\s*([-*+]|\d+[.)]) /, ""))));
  blocks.push(h(isNumbered ? "ol" : "ul", null, items));
  return n;
}

function paragraph(lines, n, blocks) {
  const parts = [];
  const starts = (at) => /^(```|#{1,6} |\s*([-*+]|\d+[.)]) )/.test(lines[at]) || (lines[at].includes("|") && isRule(lines[at + 1]));
  do {
    if (parts.length) parts.push(h("br"));
    parts.push(...inline(lines[n++]));
  } while (n < lines.length && lines[n].trim() && !starts(n));
  blocks.push(h("p", null, parts));
  return n;
}
