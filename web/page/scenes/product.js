// Scene 7. The same products on five matrix units, step by step; and the sum of a long dot product in FP8.
import {element, raised, shown, shown_power, table} from "../dom.js";
import {chart} from "../plot.js";

const units = [
  ["volta.mma.fp16.fp32", "Volta (V100)"], ["ampere.mma.fp16.fp32", "Ampere (A100)"],
  ["hopper.mma.fp16.fp32", "Hopper (H100)"], ["blackwell.tcgen05.fp16.fp32", "Blackwell (B200)"],
  ["cdna2.mfma.fp16.fp32", "CDNA2 (MI250)"], ["cdna3.mfma.fp16.fp32", "CDNA3 (MI300)"]
];
const eighth = [
  ["hopper.wgmma.e4m3.fp32", "Hopper, E4M3"], ["ada.mma.e4m3.fp32", "Ada, E4M3"],
  ["blackwell.tcgen05.e4m3.fp32", "Blackwell, E4M3"], ["hopper.mma.fp16.fp32", "Hopper, FP16"]
];
const all = [...units, ...eighth.slice(0, 3)];

const exact = (x) => x === null ? "no number"
  : x.text.includes("...") || x.text.length > 16
  ? (Number.isInteger(Math.log2(Math.abs(x.value))) ? shown_power(x.value) : shown(x.value, 9))
  : x.text.replaceAll("-", "\u2212");

function steps_of(unit) {
  return unit.steps
    .map(
      (step, i) => [table(`Step ${i + 1}: aligned to ${raised(2, step.emax)}, cut ${step.bits} bits below`,
                      ["term", "value", `digits, from ${raised(2, step.emax)} on`, "lost"],
                      step.terms.map((term) => [term.name.replaceAll(" x ", " \u00d7 "), exact(term.value),
                                       element("code", {class: "digits"},
                                         `${term.sign === "-" ? "\u2212" : "+"}${term.digits.split("|")[0]}`,
                                         element("span", {class: "hidden"}, ", cut: "),
                                         element("s", {}, term.digits.includes("|") ? term.digits.split("|")[1] : "")),
                                       exact(term.lost)])),
        element("p", {class: "sum"},
          `Their sum is ${exact(step.sum)}; ${
            step.kept ? `rounded ${step.rounding} to ${step.kept}`
                      : step.rounding}: ${step.result.replaceAll("-", "\u2212")}.`)])
    .flat();
}

export const product = {
  id: "product",
  title: "One product, many GPUs",
  question: "Why do GPUs disagree on one dot product, and where does FP8 stall?",
  explanation: "matrix-units",
  fields: [
    {
      name: "look",
      label: "Look at",
      kind: "choice",
      start: "product",
      options: [["product", "one product, on six units"], ["stall", "a long sum, and where it stalls"]]
    },
    {
      name: "unit",
      label: "Unit in steps",
      kind: "choice",
      start: "hopper.mma.fp16.fp32",
      options: all,
      when: (state) => state.look === "product"
    },
    {
      name: "long",
      label: "Unit of the long sum",
      kind: "choice",
      start: "hopper.wgmma.e4m3.fp32",
      options: eighth,
      when: (state) => state.look === "stall"
    },
    {
      name: "a",
      label: "Factors a",
      kind: "text",
      start: "1, 2^-12, 2^-12, -1",
      help: "numbers with commas; each is rounded to the unit\u2019s format"
    },
    {name: "b", label: "Factors b", kind: "text", start: "1, 2^-12, 2^-13, 1"},
    {name: "c", label: "Addend c", kind: "text", start: "0", when: (state) => state.look === "product"},
    {
      name: "n",
      label: "Products of the long sum",
      kind: "range",
      start: "15",
      least: 5,
      most: 16,
      said: (k) => `${2 ** k} products of the first a and b`,
      when: (state) => state.look === "stall"
    },
    {
      name: "promote",
      label: "Promotion to FP32 every",
      kind: "range",
      start: "128",
      least: 32,
      most: 4096,
      step: 32,
      said: (n) => `${n} products`,
      when: (state) => state.look === "stall"
    },
  ],
  ask(state, lab) {
    if (state.look === "stall") {
      const asked =
        {a: state.a.split(",")[0], b: state.b.split(",")[0], n: 2 ** Number(state.n), promote: state.promote};
      return lab.later("stall", {...asked, unit: state.long});
    }
    const numbers = {a: state.a, b: state.b, c: state.c}, chosen = lab.ask("product", {...numbers, unit: state.unit});
    return {chosen, all: units.map(([unit]) => lab.ask("product", {...numbers, unit}))};
  },
  draw(answer, state, {width, size, tall}) {
    if (state.look === "stall") {
      const high = Math.max(...answer.points.flatMap(([, exact_sum, alone, promoted]) => [exact_sum, alone, promoted])
                              .filter((x) => typeof x === "number"),
              1e-30),
            low = Math.min(0, ...answer.points.map(([, exact_sum]) => exact_sum));
      const last = answer.points.at(-1);
      return [
        chart({
          width,
          size,
          height: tall(360),
          about: `The sum of up to ${last[0]} products on ${state.long}, alone and with promotion`,
          x: {low: 0, high: last[0], name: "products"},
          y: {low, high: high * 1.05, name: "sum"},
          series: [
            {name: "exact", mark: 9, points: answer.points.map(([n, x]) => [n, x])},
            {name: "alone", mark: 1, points: answer.points.map(([n, , x]) => [n, x])},
            {name: "promoted", mark: 2, points: answer.points.map(([n, , , x]) => [n, x])}
          ]
        }),
        table(`The sum of ${last[0]} products of ${shown(answer.term)}`, ["how", "sum"],
          [
            ["exactly", shown(last[1])], [`${state.long} alone`, shown(last[2])],
            [`with a promotion to FP32 every ${answer.every} products`, shown(last[3])]
          ])
      ];
    }
    const rows = answer.all.map((unit, i) => [units[i][1], shown_result(unit.result),
                                  unit.error === null        ? "no number"
                                    : unit.error.value === 0 ? "none"
                                                             : exact(unit.error),
                                  unit.code, unit.instruction]);
    return [
      table(`d = a\u00b7b + c on six units; exactly ${exact(answer.chosen.exact)}`,
        ["unit", "d", "error", "code word", "instruction"], rows, {class: "names"}),
      element("h2", {}, all.find(([unit]) => unit === state.unit)[1]),
      element("p", {}, `${answer.chosen.rule}.`),
      answer.chosen.steps ? steps_of(answer.chosen)
                          : element("p", {},
                              `This unit does not add by one alignment: only its result, ${
                                shown_result(answer.chosen.result)}, is shown.`),
      element("p", {class: "key"}, `Evidence: ${answer.chosen.evidence} (${answer.chosen.source}).`),
    ];
  },
  say(answer, state) {
    if (state.look === "stall") {
      const last = answer.points.at(-1);
      return `${last[0]} products of ${shown(answer.term)}: exactly ${shown(last[1])}, alone ${
        shown(last[2])}, promoted ${shown(last[3])}.${
        answer.stands_from === undefined ? ""
                                         : ` Alone, the sum stands still from ${answer.stands_from} products on.`}`;
    }
    const results = new Map();
    answer.all.forEach((unit, i) => results.set(unit.result, [...(results.get(unit.result) ?? []), units[i][1]]));
    const chosen = units.some(([unit]) => unit === state.unit)
      ? ""
      : ` ${all.find(([unit]) => unit === state.unit)[1]} gives ${shown_result(answer.chosen.result)}.`;
    return (results.size === 1 ? `All six units give ${shown_result(answer.all[0].result)}.`
                               : `${results.size} different results: ${
                                     [...results]
                                       .map(([result, names]) => `${shown_result(result)} on ${names.join(", ")}`)
                                       .join("; ")}.`) +
      chosen;
  },
  command: (state) => state.look === "stall"
    ? `python3 -c 'n = ${2 ** Number(state.n)}; print("${state.a.split(",")[0].trim()} " * n, "|", "${
        state.b.split(",")[0].trim()} " * n, "| 0")' | halfulp mma --unit ${state.long} --values`
        .replaceAll(/(-?)2\^(-?\d+)/g, "$10x1p$2")
    : `echo '${
          [state.a, state.b, state.c]
            .map((list) =>
                   list.replaceAll(",", " ").replaceAll(/\s+/g, " ").trim().replaceAll(/(-?)2\^(-?\d+)/g, "$10x1p$2"))
            .join(" | ")}' | halfulp mma --unit ${state.unit} --values`,
  python: (state) => {
    const list = (text) =>
      `[${text.split(/[\s,]+/).filter((word) => word).map((word) => word.replace("2^", "2.0**")).join(", ")}]`;
    return state.look === "stall"
      ? `import halfulp, numpy as np\nn = ${2 ** Number(state.n)}\na = np.full((1, n), ${
          list(state.a.split(",")[0]).slice(1, -1)}, np.float32); b = np.full((n, 1), ${
          list(state.b.split(",")[0]).slice(1, -1)}, np.float32)\nprint(halfulp.mma("${state.long}", a, b))`
      : `import halfulp, numpy as np\na = np.array([${list(state.a)}], np.float32); b = np.array([${
          list(state.b)}], np.float32).T\nprint(halfulp.mma("${state.unit}", a, b, np.array([[${
          list(state.c).slice(1, -1)}]], np.float32)))`;
  },
};
/** All digits of a short number, nine of a long one: its code word says the rest. */
const shown_result = (text) =>
  text.length > 14 && Number.isFinite(Number(text)) ? shown(Number(text), 9) : text.replaceAll("-", "\u2212");
