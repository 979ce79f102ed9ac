// Scene 4. w += lr g, again and again, by four methods.
import {element, numbers_of, shown, shown_power, table} from "../dom.js";
import {chart} from "../plot.js";

const methods =
  [["nearest", "nearest even"], ["fp32-master", "FP32 master"], ["kahan", "Kahan"], ["stochastic", "stochastic"]];

export const staircase = {
  id: "staircase",
  title: "Staircase",
  question: "When is w + lr\u00b7g just w again, and what repairs it?",
  explanation: "swamping",
  fields: [
    {name: "format", label: "Format", kind: "format", start: "bf16"},
    {name: "lr", label: "Learning rate", kind: "text", start: "0.001"},
    {name: "g", label: "Gradient", kind: "text", start: "1"},
    {name: "steps", label: "Steps", kind: "range", start: "200", least: 1, most: 1000, said: (n) => `${n} steps`},
    {name: "seed", label: "Seed of stochastic rounding", kind: "whole", start: "1", least: 0, most: 2 ** 53},
  ],
  play: "steps",
  ask: (state, lab) => lab.ask("staircase", state),
  draw(answer, state, {width, size, tall}) {
    const steps = Number(state.steps), of = (name) => answer[name].filter((w) => typeof w === "number");
    const values = [answer.exact, 1, ...methods.flatMap(([name]) => of(name))], low = Math.min(...values),
          high = Math.max(...values), margin = (high - low) * 0.08 || 0.01;
    return [
      chart({
        width,
        size,
        height: tall(340),
        about: `The weight after each of ${steps} steps, by four methods and exactly`,
        x: {low: 0, high: Math.max(1, steps), name: "steps"},
        y: {low: low - margin, high: high + margin, name: "weight"},
        series: [
          {name: "exact", points: [[0, 1], [steps, answer.exact]], mark: 9},
          ...methods.map(([name, title], i) =>
                           ({name: title, mark: i, kind: "step", points: answer[name].map((w, step) => [step, w])}))
        ]
      }),
      table(`The weight after ${steps} steps; exactly it is ${shown(answer.exact)}`,
        ["method", "weight", "of the way", "what it keeps"], methods.map(([name, title]) => {
          const w = answer[name].at(-1), way = answer.exact - 1;
          return [
            title, shown(w), typeof w === "number" && way ? `${(100 * (w - 1) / way).toFixed(1)} %` : "no number", {
              "nearest": "nothing but the weight",
              "fp32-master": "an FP32 copy of the weight, 32 bits more",
              "kahan": "what the last sum lost, as many bits more",
              "stochastic": "nothing: the coin is right on average"
            }[name]
          ];
        })),
      numbers_of("The steps in numbers", ["step", ...methods.map(([, title]) => title)],
        () => answer.nearest.map((_, step) => step)
          .filter((step) => step <= 16 || step % Math.ceil(steps / 32) === 0 || step === steps)
          .map((step) => [String(step), ...methods.map(([name]) => shown(answer[name][step]))])),
      element("p", {class: "key"},
        `In ${state.format} the learning rate is ${shown(answer.lr)}, the gradient ${
          shown(answer.g)} and their product ${shown(answer.update)}.`),
    ];
  },
  say(answer, state) {
    const first = answer.nearest.findIndex((w, i) => i > 0 && w === answer.nearest[i - 1]),
          stuck = first > 0 && answer.nearest.slice(first).every((w) => w === answer.nearest[first]);
    const update = Math.abs(answer.update);
    if (update === 0) return `The update rounds to zero in ${state.format} before it reaches the weight.`;
    if (stuck)
      return `To nearest even the weight stands at ${shown(answer.nearest.at(-1))} from step ${
        first} on: an update of ${shown(update)} is no more than half of the distance to the next number${
        first === 1 ? `, ${shown_power(answer.half_ulp)}` : ""}.`;
    return `To nearest even the weight moves: it is ${shown(answer.nearest.at(-1))} after ${
      state.steps} steps, exactly ${shown(answer.exact)}.`;
  },
  command: (state) => `halfulp run swamping --set formats=${state.format} --set lr=${state.lr} --set ratios=${
    1 / (Number(state.lr) * Number(state.g))} --set steps=${state.steps} --set seed=${
    state.seed} --set roundings=nearest-even,stochastic && halfulp show reports/swamping.json ratios`,
  python: (state) => `import halfulp\nw, kahan, lost = 1.0, 1.0, 0.0\nq = lambda x: halfulp.quantize(x, "${
    state.format}")  # of sums and products that double holds\nu = q(q(${state.lr}) * q(${
    state.g}))\nfor step in range(${
    state
      .steps}):\n    w = q(w + u)\n    y = q(u - lost); t = q(kahan + y); lost = q(q(t - kahan) - y); kahan = t\nprint(w, kahan)`,
};
