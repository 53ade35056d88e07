// Builds elements. Text only ever becomes a text node, and no attribute is set that a browser would load or run.

const SVG = "http://www.w3.org/2000/svg";

function build(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "value") element.value = value;
    else if (name === "href" && !String(value).startsWith("#") && !String(value).startsWith("blob:")) throw new Error("a link of the page leads to the page");
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

export const s = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Replace the children of an element where they would differ, and keep the keyboard's focus at the same place. */
export function refill(element, key, make) {
  if (element.dataset.key === key) return element;
  const active = document.activeElement;
  const focus = element.contains(active) ? active.dataset.focus : undefined;
  element.dataset.key = key;
  fill(element, make());
  if (focus !== undefined) element.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus({ preventScroll: true });
  return element;
}

let lastId = 0;
/** Return an id that no other element has. */
export const newId = (name) => `${name}-${++lastId}`;

/** Keep the end of an element in view until a person scrolls up. It scrolls in the next frame, when the layout is known: to ask for it
 * while the page is painted would compute it several times a frame. */
export function endOf(element, slack) {
  let isAtEnd = true, isDue = false, last = 0;
  element.addEventListener("scroll", () => {
    const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < slack;
    if (isNear || element.scrollTop < last - 1) isAtEnd = isNear;
    last = element.scrollTop;
  }, { passive: true });
  return {
    keep() {
      if (!isAtEnd || isDue) return;
      isDue = true;
      requestAnimationFrame(() => {
        isDue = false;
        element.scrollTop = element.scrollHeight;
      });
    },
  };
}
