// Returns what is on the screen as one SVG file, which any browser shows without a script: the elements, the rules of style that apply to
// them, what is scrolled, and what is chosen in the fields.
() => {
  const width = innerWidth, height = innerHeight, styles = [];
  const isUsed = (selector) => {
    if (/^(:root|html|\*)/.test(selector)) return document.documentElement.matches(selector.split(",")[0].split(" ")[0]);
    try {
      return document.querySelector(selector.replace(/:(hover|focus-visible|focus-within|disabled)/g, "").replace(/::[\w-]+/g, "")) !== null;
    } catch {
      return true;
    }
  };
  const collect = (rules) => {
    for (const rule of rules) {
      if (rule instanceof CSSMediaRule) matchMedia(rule.media.mediaText).matches && collect(rule.cssRules);
      else if (rule instanceof CSSStyleRule && !rule.selectorText.includes(":hover") && isUsed(rule.selectorText)) styles.push(rule.cssText);
    }
  };
  for (const sheet of document.styleSheets) collect(sheet.cssRules);
  const kept = new Set(["class", "type", "aria-pressed", "aria-current", "aria-expanded", "data-tab", "open", "hidden", "selected", "placeholder", "rows",
    "viewBox", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "d", "transform", "text-anchor", "visibility", "id", "style"]);
  const copy = document.body.cloneNode(true);
  const live = [document.body, ...document.body.querySelectorAll("*")], made = [copy, ...copy.querySelectorAll("*")];
  live.forEach((element, n) => {
    const twin = made[n];
    for (const { name } of [...twin.attributes]) if (!kept.has(name) || (name === "id" && !styles.some((rule) => rule.includes(`#${element.id}`)))) twin.removeAttribute(name);
    if (element instanceof HTMLSelectElement) twin.replaceChildren(...[...twin.options].filter((_, at) => at === element.selectedIndex));
    if (element instanceof HTMLTextAreaElement) twin.textContent = element.value;
    if (element instanceof HTMLInputElement && element.value) twin.setAttribute("value", element.value);
    const moved = element.scrollTop;
    if (moved && twin.firstElementChild) twin.firstElementChild.style.marginTop = `${-moved}px`;
    if (moved) twin.style.overflow = "hidden";
  });
  for (const gone of copy.querySelectorAll("title, noscript, script, .hidden, [hidden], details:not([open]) > :not(summary)")) gone.remove();
  copy.style.height = `${height}px`;
  const words = new XMLSerializer().serializeToString(copy).replace(/ style="margin-top: 0px;"/g, "");
  const fixed = styles.join("\n").replace(/([\d.]+)vh/g, (_, n) => `${(n * height) / 100}px`).replace(/([\d.]+)vw/g, (_, n) => `${(n * width) / 100}px`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" data-theme="${document.documentElement.dataset.theme}">
<style>* { scrollbar-width: none; }
${fixed.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</style>
<foreignObject width="${width}" height="${height}">${words}</foreignObject>
</svg>
`;
}
