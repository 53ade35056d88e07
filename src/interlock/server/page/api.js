// Requests to the server, and the errors that it answers with.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `The server answered with ${status}.`);
    this.status = status;
    this.code = problem.code || "unreachable";
  }
}

async function request(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, { detail: "The server cannot be reached.", code: "unreachable" });
  }
  const isJson = (response.headers.get("content-type") || "").includes("json");
  const data = isJson ? await response.json() : {};
  if (!response.ok) throw new Refused(response.status, data);
  return data;
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);
export const remove = (path) => request("DELETE", path);

/** Return a path with its parts encoded: path`/api/turns/${turn}`. */
export const path = (texts, ...values) => texts.reduce((all, text, n) => all + encodeURIComponent(values[n - 1]) + text);

/** Return all events of a turn. */
export async function eventsOf(turn) {
  const events = [];
  for (;;) {
    const page = await get(path`/api/turns/${turn}/events` + `?after=${events.length}`);
    events.push(...page.events);
    if (!page.events.length || page.next <= events.length - page.events.length) return { status: page.status, events };
    if (page.events.length < 1000) return { status: page.status, events };
  }
}
