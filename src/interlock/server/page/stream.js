// Follows a session by one EventSource. The cookie of the page authenticates it; the browser resumes it after a loss.

import { path } from "./api.js";

/** Follow a session from a position on; return a function that ends it. */
export function follow(agent, session, position, { onEvent, onStatus, onState }) {
  const source = new EventSource(path`/api/sessions/${agent}/${session}/events` + `?since=${position}.0`);
  // The browser resumes by itself with the last id; what it has already sent is left out here too.
  let last = [0, 0];
  source.addEventListener("open", () => onState("open"));
  source.addEventListener("error", () => onState(source.readyState === EventSource.CLOSED ? "closed" : "lost"));
  source.addEventListener("event", (message) => {
    const place = message.lastEventId.split(".").map(Number);
    if (place[0] < last[0] || (place[0] === last[0] && place[1] <= last[1])) return;
    last = place;
    onEvent(place[0], JSON.parse(message.data));
  });
  source.addEventListener("status", (message) => onStatus(JSON.parse(message.data)));
  return () => {
    source.close();
    onState("closed");
  };
}
