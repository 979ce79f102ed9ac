// Elements, and numbers as people read them.

/** An element with attributes; listeners are on* functions, children texts or nodes. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
export function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-") || (value !== undefined && value !== false))
      node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** A table with a caption, heads of columns, and rows whose first cell is their head. */
export function table(caption, heads, rows, attributes = {}) {
  return element("div", {class: "wide", tabindex: "0", role: "region", "aria-label": caption},
    element("table", attributes, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads.map((head) => element("th", {scope: "col"}, head)))),
      element("tbody", {},
        rows.map((row) => element("tr", row.attributes ?? {},
                   (row.cells ?? row).map((cell, i) => element(i ? "td" : "th", i ? {} : {scope: "row"}, cell)))))));
}

/** What a picture shows, as a table for those who ask for it: it is made when it is opened. */
export function numbers_of(what, heads, rows) {
  const details = element("details", {
    ontoggle: () => {
      if (details.open && !details.querySelector("table")) details.append(table(what, heads, rows()));
    }
  },
    element("summary", {}, what));
  return details;
}

/** A double to six digits, whole numbers in full. The module writes Infinity and NaN as words. */
export function shown(x, digits = 6) {
  if (typeof x !== "number") return x === null || x === undefined ? "none" : String(x).replace("-", "\u2212");
  if (Number.isInteger(x) && Math.abs(x) < 1e9)
    return (Object.is(x, -0) ? "\u22120" : String(x)).replace("-", "\u2212");
  const text = String(Number(x.toPrecision(digits)));
  return text.replace(/e\+?(-?\d+)/, (_, k) => ` \u00d7 ${raised(10, k)}`).replace("-", "\u2212");
}
/** 2 to the power of -14 as 2\u207b\u00b9\u2074. */
export const raised = (base, exponent) => base +
  [...String(exponent)]
    .map((c) => c === "-" ? "\u207b" : "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c])
    .join("");
/** Powers of two that are small or large as such, else as `shown`. */
export function shown_power(x) {
  const k = Math.log2(Math.abs(x));
  return Number.isInteger(k) && (k < -3 || k > 16) ? `${x < 0 ? "\u2212" : ""}${raised(2, k)}` : shown(x);
}
/** A share as percents, never 0 % or 100 % of what is neither. */
export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}
/** 1 token, 2 tokens. */
export const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
/** Text for a shell or for Python, in quotes where it needs them. */
export const quoted = (text) => /^[\w.,+=/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
