// Small words that several parts show: status, times, durations.

import { h } from "./dom.js";

const NAMES = { queued: "queued", ready: "queued", running: "running", open: "not ended", waiting: "asks you", success: "done", error: "failed", cancelled: "stopped" };

export const nameOf = (status) => NAMES[status] ?? status;

export const statusPill = (status) => h("span", { class: `pill ${status}` }, nameOf(status));

export function secondsOf(shape) {
  if (!shape.started || !shape.ended) return null;
  const ms = Date.parse(shape.ended) - Date.parse(shape.started);
  return durationOf(ms);
}

export function durationOf(ms) {
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function timeOf(text) {
  if (!text) return "";
  const time = new Date(text);
  const isToday = time.toDateString() === new Date().toDateString();
  // Without the locale, which takes a browser more than ten milliseconds when it is first used: a frame of a turn that runs.
  return isToday ? [time.getHours(), time.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":") : time.toLocaleDateString([], { month: "short", day: "numeric" });
}

/** Return what a person recognises a session by: what was said in it. */
export const titleOf = (session) => (session.said.length > 44 ? `${session.said.slice(0, 43)}…` : session.said) || session.session;

export const tokenText = (tokens) => `${tokens.in ?? "?"} → ${tokens.out ?? "?"} tokens`;
