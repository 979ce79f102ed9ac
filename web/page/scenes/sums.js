// Scene 5. The order of a sum and the format it is kept in.
import {element, numbers_of, shown, shown_power, table} from "../dom.js";
import {chart} from "../plot.js";

const orders = [
  ["sequential", "one after the other"], ["blocked", "in blocks of 64"], ["pairwise", "pairwise"], ["kahan", "Kahan"],
  ["promoted", "FP32 every 128"]
];

export const sums = {
  id: "sums",
  title: "Sums",
  question: "How fast does a sum\u2019s error grow, and what does its order change?",
  explanation: "accumulation",
  fields: [
    {name: "format", label: "Accumulator", kind: "format", start: "bf16"},
    {
      name: "terms",
      label: "Terms",
      kind: "choice",
      start: "uniform",
      options: [["uniform", "uniform between 0 and 1"], ["normal", "standard normal"], ["ones", "ones"]]
    },
    {name: "order", label: "Order", kind: "choice", start: "sequential", options: orders},
    {
      name: "n",
      label: "How many",
      kind: "whole",
      start: "4096",
      least: 1,
      most: 131072,
      help: "1 to 131072; try 70000 ones"
    },
    {name: "k", label: "Term that enters", kind: "whole", start: "300", least: 1, most: 131072},
    {name: "seed", label: "Seed", kind: "whole", start: "1", least: 0, most: 2 ** 53},
  ],
  play: "k",
  settled: (state) => Number(state.k) > Number(state.n) ? {...state, k: state.n} : state,
  last: (state) => Number(state.n),
  ask(state, lab) {
    return Number(state.n) > 1024 ? lab.later("sums", state) : lab.ask("sums", state);
  },
  draw(answer, state, {width, size, tall}) {
    const {lengths, u} = answer, n = lengths.at(-1), rows = answer.orders.filter((row) => !row.refused);
    const errors = rows.flatMap((row) => row.errors).filter((error) => typeof error === "number" && error > 0);
    const low = 2 ** Math.floor(Math.log2(Math.min(...errors, u))),
          high = 2 ** Math.ceil(Math.log2(Math.max(...errors, u, Math.min(1, n * u))));
    const title = (order) => orders.find(([name]) => name === order)[1], at = answer.entering;
    const bound = (name, f, mark) => ({name, mark, points: lengths.map((length) => [length, f(length)])});
    return [
      chart({
        width,
        size,
        height: tall(360),
        about: `Relative errors of sums of up to ${n} terms in ${rows.length} orders`,
        x: {low: 1, high: Math.max(2, n), log: 2, name: "terms"},
        y: {low: low / 2, high: high * 2, log: 2, name: "relative error"},
        series: [
          bound("n\u00b7u", (length) => length * u, 8), bound("\u221an\u00b7u", (length) => Math.sqrt(length) * u, 8),
          ...rows.map((row) => ({
            name: title(row.order),
            mark: orders.findIndex(([name]) => name === row.order),
            points: row.errors.map((error, i) => [lengths[i], error])
          }))
        ]
      }),
      element("p", {class: "big"}, `${shown(at.before)} + ${shown(at.term)} \u2192 ${shown(at.after)}`),
      element("p", {class: "key"},
        `Term ${at.k}, ${title(state.order)}: the sum of ${at.k - 1} terms, the term, and the sum of ${at.k}; exactly ${
          shown(at.exact)}. The curves: the error divided by the sum of magnitudes; where it is 0, nothing is drawn.`),
      table(`Sums of ${n} terms in ${state.format}; exactly ${shown(answer.exact.at(-1))}; u = ${shown_power(u)}`,
        ["order", "sum", "error / sum of magnitudes"],
        answer.orders.map((row) => row.refused
            ? [title(row.order), "not possible", row.refused]
            : [title(row.order), shown(row.sums.at(-1)), shown(row.errors.at(-1), 3)])),
      numbers_of("The curves in numbers",
        ["terms", ...rows.map((row) => title(row.order)), "n\u00b7u", "\u221an\u00b7u"],
        () => lengths.map((length, i) => [String(length), ...rows.map((row) => shown(row.errors[i], 3)),
                            shown(length * u, 3), shown(Math.sqrt(length) * u, 3)])),
    ];
  },
  say(answer, state) {
    const row = answer.orders.find(({order}) => order === state.order), at = answer.entering;
    const stuck = at.before === at.after && at.term !== 0 ? ` Term ${at.k} leaves it at ${shown(at.after)}.` : "";
    return `The sum of ${answer.lengths.at(-1)} terms in ${state.format} is ${shown(row.sums.at(-1))}, exactly ${
      shown(answer.exact.at(-1))}.${stuck}`;
  },
  command: (state) =>
    `halfulp run accumulation --set formats=${state.format} --set distribution=${state.terms} --set orders=${
      state.order} --set lengths=${state.n} --set roundings=nearest-even --set trials=1 --set seed=${
      state.seed} && halfulp show reports/accumulation.json sums`,
  python: (state) => `import halfulp, numpy as np\nx = ${
    state.terms === "ones"
      ? `np.ones(${state.n})`
      : `np.random.default_rng(${state.seed}).${state.terms === "normal" ? "standard_normal" : "random"}(${
          state.n})  # other terms than the page\u2019s`}\nprint(halfulp.dot(x, np.ones(${state.n}), model="${
    state.format}${{
    sequential: "",
    blocked: ",order=blocked:64",
    pairwise: ",order=pairwise",
    kahan: ",comp=kahan",
    promoted: ",order=blocked:128,promote=fp32"
  }[state.order]}"))`,
};
