// Small charts in SVG: bars for groups, columns for a series in time.

import { h, s } from "./dom.js";

const short = (value) => {
  const size = Math.abs(value);
  const [by, unit] = size >= 1e9 ? [1e9, "bn"] : size >= 1e6 ? [1e6, "m"] : size >= 1e3 ? [1e3, "k"] : [1, ""];
  return `${Number((value / by).toPrecision(3))}${unit}`;
};

const LETTER = 6.4;

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export function chartOf(points, { title, isSeries = false }) {
  return isSeries ? columns(points, title) : bars(points, title);
}

function frame(width, height, title, points, ...children) {
  const says = `${title}: ${points.slice(0, 12).map((one) => `${one.label} ${one.text ?? short(one.value)}`).join(", ")}`;
  return h("div", { class: "plot" }, h("p", { class: "caption" }, title),
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": says, class: "drawing" }, ...children));
}

function bars(points, title) {
  const width = 360, row = 22, left = 110, right = 56;
  const most = Math.max(...points.map((one) => Math.abs(one.value)), 1e-9);
  return frame(width, points.length * row + 4, title, points, points.map((one, n) => {
    const length = (Math.abs(one.value) / most) * (width - left - right);
    return s("g", null,
      s("text", { x: left - 8, y: n * row + 15, class: "axis", "text-anchor": "end" }, cut(one.label, 17)),
      s("rect", { x: left, y: n * row + 4, width: Math.max(length, 1), height: row - 8, rx: 3, class: one.value < 0 ? "bar negative" : "bar" },
        s("title", null, `${one.label}: ${one.text ?? one.value}`)),
      s("text", { x: left + length + 6, y: n * row + 15, class: "axis" }, short(one.value)));
  }));
}

export function columns(points, title, { height = 130, width = 360 } = {}) {
  const bottom = 20, top = 16;
  const most = Math.max(...points.map((one) => one.value), 1e-9);
  const step = width / Math.max(points.length, 1);
  // Names that fit below their column stand in its middle; others begin with it, every few columns.
  const widest = Math.max(...points.map((one) => one.label.length)) * LETTER;
  const fits = widest <= step, every = fits ? 1 : Math.ceil((widest + 14) / step);
  const name = (one, n) => (fits ? { x: n * step + step / 2, "text-anchor": "middle" } : { x: n * step, "text-anchor": "start" });
  return frame(width, height, title, points,
    s("line", { x1: 0, x2: width, y1: height - bottom, y2: height - bottom, class: "base" }),
    s("text", { x: 0, y: 10, class: "axis" }, short(most > 1e-9 ? most : 0)),
    points.map((one, n) => {
      const length = Math.max(0, (one.value / most) * (height - bottom - top));
      return s("g", null,
        s("rect", { x: n * step + step * 0.15, y: height - bottom - length, width: Math.max(step * 0.7, 1), height: length, rx: Math.min(3, step * 0.2), class: "bar" },
          s("title", null, `${one.label}: ${one.text ?? short(one.value)}`)),
        n % every || (!fits && n * step + widest > width) ? null : [
          fits ? null : s("line", { x1: n * step, x2: n * step, y1: height - bottom, y2: height - bottom + 4, class: "base" }),
          s("text", { ...name(one, n), y: height - 5, class: "axis" }, one.label)]);
    }));
}
