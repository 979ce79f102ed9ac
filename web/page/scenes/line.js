// Scene 2. A number between the numbers that a format has.
import {drawing, element, percent, quoted, raised, shown, shown_power, table} from "../dom.js";
import {axis} from "../plot.js";
import {number_of, ratio} from "./bits.js";

const most_drawn = 160;  // numbers that are drawn one by one
/** The part of the line that is seen: the whole range at zoom 0, half of it at each step further, around x. */
function seen(found, x, zoom) {
  const most = Math.min(found.largest, 8e299), beyond = Math.max(0, Math.abs(x) - most);
  if (zoom === 0) return [-Math.max(most, Math.abs(x)) * 1.15, Math.max(most, Math.abs(x)) * 1.15];
  const half = Math.max(most * 1.15 / 2 ** zoom, beyond * 1.3);
  return [x - half, x + half];
}
export const line = {
  id: "line",
  title: "Number line",
  question: "Which number does a rounding mode choose, and when is it a tie?",
  explanation: "stochastic-rounding",
  fields: [
    {
      name: "x",
      label: "Number",
      kind: "text",
      start: "0.3",
      help: "drag it along the line, or write it: 0.3, 1/3, 2^-9"
    },
    {name: "format", label: "Format", kind: "format", start: "e4m3"},
    {
      name: "zoom",
      label: "Zoom",
      kind: "range",
      start: "11",
      least: 0,
      most: 60,
      said: (zoom) => zoom === "0" ? "the whole range" : `1/${raised(2, zoom)} of the range`
    },
    {
      name: "seed",
      label: "Toss of the stochastic coin",
      kind: "range",
      start: "1",
      least: 1,
      most: 100,
      said: (seed) => `seed ${seed}`
    },
  ],
  play: "seed",
  ask(state, lab) {
    const found = lab.ask("explained", {format: state.format, x: state.x, round: "stochastic", seed: state.seed});
    const x = found.exactly === null ? (found.class.includes("NaN") ? NaN : undefined) : ratio(found.exactly);
    if (!(Math.abs(x) < 5e299))
      throw new Error(`Number: '${state.x.slice(0, 40)}' has no place on the line; accepted: finite numbers`);
    const [low, high] = seen(found, x, Number(state.zoom));
    return {found, x, low, high, ...lab.ask("line", {format: state.format, low, high, most: most_drawn})};
  },
  draw(answer, state, {width, size}) {
    const {found, x, low, high, values, count} = answer, row_height = 2.2 * size, narrow = width < 40 * size,
                                        base = 5 * size, height = base + 4.5 * size + 8 * row_height;
    const pixels = axis(low, high, 16, width - 16),
          digits = Math.min(
            15, Math.max(4, Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high)) / (high - low))) + 3));
    const middles = values.slice(1).map(({value}, i) => (value + values[i].value) / 2);
    const rows = found.modes.filter((mode) => mode.rounding !== "stochastic");
    const to = (value) => Math.max(4,
      Math.min(width - 4,
        pixels.at(typeof value === "number" ? value
            : String(value).startsWith("-") ? -Infinity
                                            : Infinity)));
    const arrow = (value, row, name) => {
      const y = base + 4 * size + row * row_height, from = to(x), end = value === "NaN" ? from : to(value),
            side = end >= from ? 1 : -1;
      return drawing("g", {class: "arrow"}, drawing("line", {x1: from, x2: end, y1: y, y2: y}),
        end === from ? drawing("circle", {cx: from, cy: y, r: 4})
                     : drawing("path", {d: `M${end} ${y}l${- 8 * side} -5v10z`}),
        drawing("text", narrow ? {x: 4, y: y - size / 2} : {
          x: from > width / 2 ? Math.min(from, end) - 12 : Math.max(from, end) + 12,
          y: y + size / 3,
          "text-anchor": from > width / 2 ? "end" : "start"
        },
          `${name}: ${shown(value)}`));
    };
    const coin = found.modes.filter((mode) => mode.rounding === "stochastic");
    return [
      drawing("svg", {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        class: "draggable",
        "data-drag": true,
        role: "img",
        "aria-label":
          `${count} numbers of ${state.format} from ${shown(low)} to ${shown(high)}, and ${shown(x)} among them`
      },
        pixels.ticks(Math.max(2, width / (size * Math.max(7, digits))))
          .map((tick) => drawing("g", {class: "tick"},
                 drawing("line", {x1: pixels.at(tick), x2: pixels.at(tick), y1: base, y2: base + 8}),
                 drawing("text", {x: pixels.at(tick), y: base + 8 + 1.1 * size, "text-anchor": "middle"},
                   shown(tick, digits)))),
        drawing("line", {x1: 0, x2: width, y1: base, y2: base, class: "base"}),
        values.length === 0 && count > most_drawn &&
          drawing("text", {x: width / 2, y: 24, "text-anchor": "middle"}, `${count} numbers here: zoom in to see each`),
        middles.map((middle) => drawing("line",
                      {x1: pixels.at(middle), x2: pixels.at(middle), y1: base - 12, y2: base, class: "middle"})),
        values.map(({value, subnormal}) => drawing("line", {
          x1: pixels.at(value),
          x2: pixels.at(value),
          y1: base - (subnormal ? 24 : 34),
          y2: base,
          class: subnormal ? "subnormal" : "value"
        })),
        drawing("path", {d: `M${to(x)} ${base}l-8 -46h16z`, class: "marker"}),
        rows.map((mode, i) => arrow(mode.value, i, mode.rounding)),
        arrow(found.result.value, rows.length, `stochastic, seed ${state.seed}`)),
      element("p", {class: "key"},
        "Long strokes: normal numbers. Shorter: subnormal ones. Short and dashed: midpoints, where nearest modes have a tie."),
      table("Every rounding mode", ["mode", "result", "why"],
        [...rows, ...coin].map(
          (mode) => [mode.rounding, shown(mode.value),
            mode.rounding === "stochastic" ? `with probability ${percent(ratio(mode.probability))}` : mode.reason])),
    ];
  },
  drag(answer, state, left, top, width) {
    const pixels = axis(answer.low, answer.high, 16, width - 16),
          step = 2 ** Math.floor(Math.log2((answer.high - answer.low) / width));
    const x = Math.round(pixels.value(left) / step) * step;
    // Without moving the line under the pointer: it is around x at the next step of the zoom only.
    return {x: String(Math.max(-answer.found.largest, Math.min(answer.found.largest, x)))};
  },
  say({found, x}, state) {
    const coin = found.modes.filter((mode) => mode.rounding === "stochastic");
    if (found.is_exact)
      return `${shown(x)} is a number of ${state.format}: every mode keeps it. The next ones are ${
        shown(found.below?.value)} and ${shown(found.above?.value)}.`;
    const between = found.below && found.above ? `${shown(x)} lies between ${shown(found.below.value)} and ${
                                                   shown(found.above.value)}, ${shown_power(ratio(found.ulp))} apart.`
                                               : `${shown(x)} lies beyond the numbers of ${state.format}.`;
    return `${between} ${
      found.modes[0].reason.startsWith("tie") ? "It is exactly half-way: a tie. " : ""}The coin gives ${
      coin.map((mode) => `${shown(mode.value)} in ${percent(ratio(mode.probability))}`)
        .join(" and ")} of tosses; toss ${state.seed} gives ${shown(found.result.value)}.`;
  },
  command: (state) =>
    `halfulp explain ${quoted(state.x)} --format ${state.format} --round stochastic --seed ${state.seed}`,
  python: (state, {found}) =>
    `import halfulp\nfor mode in ("nearest-even", "toward-zero", "toward-positive", "toward-negative"):\n    print(mode, halfulp.quantize(${
      found.exactly.length > 40 ? `float.fromhex("${found.hex_float}")`
                                : found.exactly}, "${state.format}", rounding=mode))\nprint(halfulp.quantize(${
      found.exactly.length > 40 ? number_of(found)
                                : found.exactly}, "${state.format}", rounding="stochastic", seed=${state.seed}))`,
};
