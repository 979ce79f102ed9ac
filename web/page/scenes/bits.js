// Scene 1. One number in two formats: its bits, its neighbours, and what every rounding mode makes of it.
import {element, quoted, raised, shown, shown_power, table} from "../dom.js";

const is_code_word = (text) => /^0x[0-9a-f]+$/i.test(text);
/** 0b0011... as the code word that the module reads. */
const with_hexadecimal = (text) => /^0b[01]{1,64}$/i.test(text) ? `0x${BigInt(text).toString(16).toUpperCase()}` : text;

/** The number that a code word stands for, as text that every format can read. */
export const number_of = (found) => found.class.includes("NaN") ? "nan"
  : found.class === "infinity"                                  ? (found.result.value === "-Infinity" ? "-inf" : "inf")
  : found.exact_decimal.length <= 24                            ? found.exact_decimal
                                                                : found.hex_float;

const digits = (found) => {
  const {sign, exponent, fraction} = found.layout, bits = sign + exponent + fraction;
  return {bits, text: BigInt(found.result.code).toString(2).padStart(bits, "0"), sign, exponent, fraction};
};

function formula(found) {
  const {text, sign, exponent, fraction} = digits(found);
  if (found.class.includes("NaN") || found.class === "infinity" || found.class === "zero") return found.class;
  const lead = found.class === "normal" ? "1" : "0", tail = text.slice(sign + exponent);
  return `${sign && text[0] === "1" ? "\u2212" : "+"}${lead}${fraction ? "." : ""}${tail} (binary) \u00d7 ${
    raised(2, found.exponent)}, ${found.class}`;
}

function card(found, format, key, {set}) {
  const {bits, text, sign, exponent} = digits(found), word = BigInt(found.result.code);
  const group = (i) => i < sign ? "sign" : i < sign + exponent ? "exponent" : "fraction";
  const button = (i) => element("button", {
    type: "button",
    class: `bit ${group(i)}`,
    "data-key": `${key}${i}`,
    "aria-pressed": text[i] === "1",
    "aria-label": `${format}, ${group(i)}, bit ${bits - 1 - i}: ${text[i]}`,
    onclick: () => set({[`word of ${key}`]: `0x${(word ^ 1n << BigInt(bits - 1 - i)).toString(16)}`})
  },
    text[i]);
  const step = (side, label) => found[side]?.code &&
    element("button",
      {type: "button", "data-key": `${key}${side}`, onclick: () => set({[`word of ${key}`]: found[side].code})},
      `${label}: ${shown(found[side].value, 9)}`);
  const groups = ["sign", "exponent", "fraction"]
                   .map((name) => [name, [...text].map((_, i) => i).filter((i) => group(i) === name)])
                   .filter(([, of]) => of.length);
  return element("section", {class: "card", "aria-label": format}, element("h2", {}, `${format}: ${found.title}`),
    element("div", {class: "bits", role: "group", "data-group": true, "aria-label": `bits of ${format}`},
      groups.map(([name, of]) => element(
                   "div", {class: "bit-group"}, element("div", {}, of.map(button)), element("span", {}, name)))),
    element("p", {class: "help"}, "Press a bit to change it: both formats follow."),
    element("p", {class: "value"}, found.exact_decimal.length > 60 ? found.hex_float : found.exact_decimal),
    element("p", {}, formula(found)),
    element("dl", {},
      [
        ["code word", found.result.code],
        ["error",
          found.is_exact  ? "none: the number is exact"
            : found.error ? shown(ratio(found.error))
                          : "no number"],
        ["1 ulp here", found.ulp ? shown_power(ratio(found.ulp)) : "none"], ["largest", shown(found.largest)],
        ["smallest normal", shown_power(found.smallest_normal)], ["smallest", shown_power(found.smallest)]
      ].flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    element("p", {class: "steps"}, step("below", "Number below"), step("above", "Number above")),
    table(`What each rounding mode makes of it in ${format}`, ["mode", "result", "error in ulp", "why"],
      found.modes.map((mode) => [mode.rounding, shown(mode.value, 9),
                        mode.error_in_ulp === null ? "none" : shown(mode.error_in_ulp, 4),
                        mode.flags === "none" ? mode.reason : `${mode.reason}; ${mode.flags}`])));
}

/** A fraction such as -1/3 as a double. */
export function ratio(text) {
  const [over, under = "1"] = text.split("/");
  const shift = Math.max(0, Math.max(over.length, under.length) - 300);  // of digits that a double cannot hold
  return shift ? Number(over.slice(0, -shift || undefined)) / Number(under.slice(0, -shift || undefined))
               : Number(over) / Number(under);
}

const roundings = [
  "nearest-even", "nearest-away", "nearest-to-zero", "toward-zero", "toward-positive", "toward-negative", "to-odd",
  "stochastic"
];
export const rounding_options = roundings.map((name) => [name, name]);

export const bits = {
  id: "bits",
  title: "Bits",
  question: "What is a number made of, and what is left of it in few bits?",
  explanation: "conversions",
  fields: [
    {
      name: "x",
      label: "Number",
      kind: "text",
      start: "0.1",
      help: "0.1, 1/3, 2^-25, 0x1.8p-3, inf, nan, or the first format\u2019s code word: 0x3C00, 0b0011\u2026"
    },
    {
      name: "format",
      label: "Format",
      kind: "format",
      start: "fp16",
      help: "a name, or eXmY: X exponent and Y fraction bits"
    },
    {name: "beside", label: "Beside it", kind: "format", start: "e4m3"},
    {
      name: "round",
      label: "Rounding",
      kind: "choice",
      start: "nearest-even",
      options: rounding_options,
      help: "stochastic: up as often as the number lies near the upper neighbour"
    },
    {name: "seed", label: "Seed of stochastic rounding", kind: "whole", start: "1", least: 0, most: 2 ** 53},
  ],
  ask(state, lab) {
    const at = (format, x) => lab.ask("explained", {format, x, round: state.round, seed: state.seed});
    const first = at(state.format, with_hexadecimal(state.x));
    return {first, second: at(state.beside, is_code_word(with_hexadecimal(state.x)) ? number_of(first) : state.x)};
  },
  draw: ({first, second}, state, tools) => {
    // A bit that is clicked says which number is meant now.
    const set = (changes) => {
      const [[name, word]] = Object.entries(changes), format = name === "word of a" ? state.format : state.beside;
      tools.set({x: number_of(tools.lab.ask("explained", {format, x: word, round: "nearest-even", seed: 1}))});
    };
    return element(
      "div", {class: "cards"}, card(first, state.format, "a", {set}), card(second, state.beside, "b", {set}));
  },
  say: ({first, second}, state) => [[first, state.format], [second, state.beside]]
    .map(([found, format]) => ["infinity", "NaN", "signalling NaN"].includes(found.class)
        ? `In ${format} it is ${found.class}${
            found.exactly === null ? "" : `: it lies beyond ${shown(found.largest)}, the largest number`}.`
        : found.class === "zero" && !found.is_exact
        ? `In ${format} it becomes 0: it lies below the smallest number, ${shown_power(found.smallest)}.`
        : `In ${format} it is ${found.exact_decimal.length > 40 ? found.shortest_decimal : found.exact_decimal}, ${
            found.is_exact               ? "exactly"
              : found.class === "normal" ? "rounded"
                                         : found.class}.`)
    .join(" "),
  command: (state, {first}) => is_code_word(with_hexadecimal(state.x))
    ? `halfulp explain ${with_hexadecimal(state.x)} --format ${state.format} --round ${state.round} --seed ${
        state.seed}\nhalfulp explain ${quoted(number_of(first))} --format ${state.beside} --round ${
        state.round} --seed ${state.seed}`
    : `halfulp explain ${quoted(state.x)} --format ${state.format},${state.beside} --round ${state.round} --seed ${
        state.seed}`,
  python: (state, {first}) =>
    `import halfulp\nfor name in ("${state.format}", "${state.beside}"):\n    print(halfulp.quantize(${
      number_for_python(
        first)}, name, rounding="${state.round}"${state.round === "stochastic" ? `, seed=${state.seed}` : ""}))`,
};

function number_for_python(found) {
  if (found.exactly === null) return `float("${number_of(found)}")`;
  return found.exactly.length > 40 ? `float.fromhex("${found.hex_float}")` : found.exactly;
}
