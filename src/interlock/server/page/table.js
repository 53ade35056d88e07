// A table of an answer: as a table, as a chart where one column groups the others, and as a file.

import { chartOf } from "./chart.js";
import { h } from "./dom.js";

/** Return a cell as a number, or null. "3,128.50 EUR" and "12 %" are numbers. */
export function numberIn(cell) {
  const found = /^[^\d-]{0,4}(-?\d{1,3}(,\d{3})+(\.\d+)?|-?\d+(\.\d+)?)\s?(%|[A-Za-z]{3})?$/.exec(cell);
  return found ? Number(found[1].replaceAll(",", "")) : null;
}

/** Return the columns of numbers of a table with one grouping column, or null: such a table can be drawn. */
export function measuresOf(head, rows) {
  if (rows.length < 2 || rows.length > 60 || head.length < 2 || head.length > 6) return null;
  const isNumeric = head.map((_, column) => rows.every((row) => numberIn(row[column] ?? "") !== null));
  const groups = head.map((_, n) => n).filter((n) => !isNumeric[n] || isTime(rows.map((row) => row[n])));
  if (groups.length !== 1) return null;
  return { group: groups[0], measures: head.map((_, n) => n).filter((n) => n !== groups[0]) };
}

export const isTime = (values) => values.every((value) => /^(19|20)\d\d([-/ ]?(Q[1-4]|W?\d\d)([-/]\d\d)?)?$/.test(value));

/** Return a value as text that a spreadsheet does not take for a formula. */
function csvCell(value) {
  const safe = /^[=+\-@\t\r]/.test(value) && numberIn(value) === null ? `'${value}` : value;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export const asCsv = (head, rows) => [head, ...rows].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";

function save(head, rows) {
  const url = URL.createObjectURL(new Blob([asCsv(head, rows)], { type: "text/csv" }));
  h("a", { href: url, download: "table.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function showTable(head, rows, { hasTools = true } = {}) {
  const numeric = head.map((_, n) => rows.length > 0 && rows.every((row) => numberIn(row[n] ?? "") !== null));
  const align = (n) => (numeric[n] ? { class: "number" } : null);
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${head.join(", ")}` },
    h("table", null,
      h("thead", null, h("tr", null, head.map((cell, n) => h("th", { scope: "col", ...align(n) }, cell)))),
      h("tbody", null, rows.map((row) => h("tr", null, head.map((_, n) => h("td", align(n), row[n] ?? "")))))));
  if (!hasTools) return h("figure", { class: "table" }, table);
  const found = measuresOf(head, rows);
  const chart = found && h("div", { class: "chart", hidden: true });
  const draw = (measure) => chart.replaceChildren(chartOf(rows.map((row) => ({ label: row[found.group], value: numberIn(row[measure]), text: row[measure] })), {
    title: `${head[measure]} by ${head[found.group]}`, isSeries: isTime(rows.map((row) => row[found.group])) }));
  const button = found && h("button", { class: "small", "aria-pressed": "false", on: { click: () => {
    const isChart = table.hidden = !table.hidden;
    chart.hidden = !isChart;
    button.setAttribute("aria-pressed", String(isChart));
    if (choice) choice.hidden = !isChart;
    if (isChart) draw(choice ? Number(choice.value) : found.measures[0]);
  } } }, "Chart");
  const choice = found && found.measures.length > 1 && h("select", { class: "small", hidden: true, "aria-label": "What the chart shows",
    on: { change: () => draw(Number(choice.value)) } }, found.measures.map((n) => h("option", { value: n }, head[n])));
  return h("figure", { class: "table" }, table, chart, h("div", { class: "tools" },
    h("span", { class: "muted" }, `${rows.length} rows`), choice, button, h("button", { class: "small", on: { click: () => save(head, rows) } }, "CSV")));
}
