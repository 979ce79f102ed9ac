// Scene 8. One outlier among 32 numbers, and what it does to the others in formats with scales.
import {drawing, element, numbers_of, percent, shown, shown_power, table} from "../dom.js";

const formats = [
  ["mxfp8e4m3", "MXFP8"], ["mxfp6e2m3", "MXFP6"], ["mxfp4", "MXFP4"], ["nvfp4", "NVFP4"], ["int8", "INT8"],
  ["e4m3-tensor", "E4M3, one scale"]
];
const count = 32;
/**
 * 32 numbers between -1 and 1, the same everywhere: multiples of 1/256 by a congruential generator (Park and Miller
 * 1988).
 */
function others(seed) {
  let state = Number(seed) % 2147483646 + 1;
  return Array.from({length: count}, () => {
    state = Number(BigInt(state) * 48271n % 2147483647n);
    return Math.round(state / 2147483647 * 512 - 256) / 256;
  });
}
function numbers(state) {
  const x = others(state.seed);
  x[Number(state.place)] = 2 ** Number(state.outlier);
  return x;
}
const root_mean_square = (x) => Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / x.length);

export const block = {
  id: "block",
  title: "One block",
  question: "What does one outlier do to the numbers that share its scale?",
  explanation: "blocks",
  fields: [
    {
      name: "outlier",
      label: "Outlier",
      kind: "range",
      start: "3",
      least: -4,
      most: 14,
      said: (k) => shown(2 ** Number(k))
    },
    {
      name: "place",
      label: "Its place",
      kind: "range",
      start: "5",
      least: 0,
      most: count - 1,
      said: (i) => `place ${i}, of 0 to ${count - 1}`
    },
    {name: "format", label: "Format in detail", kind: "choice", start: "mxfp4", options: formats},
    {name: "seed", label: "Seed of the others", kind: "whole", start: "1", least: 0, most: 2 ** 31},
  ],
  play: "outlier",
  ask(state, lab) {
    const x = Float64Array.from(numbers(state));
    return formats.map(([format]) => lab.ask("block", {format}, x));
  },
  draw(answers, state, {width, size}) {
    const x = numbers(state), place = Number(state.place),
          chosen = answers[formats.findIndex(([name]) => name === state.format)];
    const height = 290, middle = 160, column = (width - 8) / count;
    // Two scales: that of the others in full, the outlier cut at the edge.
    const y = (v) => middle - Math.max(-1.18, Math.min(1.18, v)) * 100;
    const rows = answers.map((answer, i) => {
      const rest = x.map((v, j) => j).filter((j) => j !== place), errors = rest.map((j) => answer.values[j] - x[j]);
      return [
        formats[i][1],
        answer.scales.map((s) => shown_power(s)).join(" and ") +
          (answer.tensor_scale !== 1 ? `, times the tensor\u2019s ${shown(answer.tensor_scale, 3)}` : ""),
        shown(answer.values[place]), percent(root_mean_square(errors) / root_mean_square(rest.map((j) => x[j]))),
        String(rest.filter((j) => answer.values[j] === 0 && x[j] !== 0).length)
      ];
    });
    return [
      drawing("svg", {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        class: "draggable",
        "data-drag": true,
        role: "img",
        "aria-label": `32 numbers and what ${chosen.format} makes of them`
      },
        drawing("line", {x1: 0, x2: width, y1: middle, y2: middle, class: "base"}),
        chosen.size < count &&
          drawing("line",
            {x1: 4 + chosen.size * column, x2: 4 + chosen.size * column, y1: 8, y2: height - 8, class: "middle"}),
        x.map((v, i) => drawing("g", {class: i === place ? "outlier" : "number"}, drawing("rect", {
          x: 4 + i * column + 1,
          width: column - 2,
          y: Math.min(middle, y(v)),
          height: Math.abs(y(v) - middle),
          class: "bar"
        }),
                drawing("path", {d: `M${4 + i * column} ${y(chosen.values[i])}h${column}`, class: "after"}))),
        drawing("text", {x: Math.min(width - 60, 4 + place * column), y: Math.max(size, y(x[place]) - size / 2)},
          shown(x[place]))),
      element("p", {class: "key"},
        `Bars: the numbers, the outlier cut off at the edge. Strokes: what ${
          chosen.format} makes of them. Drag the outlier along. Errors are root mean squares.${
          chosen.size < count ? " The dashed line: where another block begins." : ""}`),
      table("The other 31 numbers in six formats",
        ["format", "scales", "outlier becomes", "error of the others, of their size", "become zero"], rows),
      numbers_of(`The 32 numbers in ${chosen.format}`, ["place", "number", "becomes"],
        () => x.map((v, i) => [String(i), shown(v), shown(chosen.values[i])])),
    ];
  },
  drag(answers, state, left, top, width) {
    return {place: String(Math.max(0, Math.min(count - 1, Math.floor((left - 4) / ((width - 8) / count)))))};
  },
  say(answers, state) {
    const x = numbers(state), place = Number(state.place),
          zeros = (answer) => answer.values.filter((v, i) => i !== place && v === 0 && x[i] !== 0).length;
    return `With an outlier of ${shown(x[place])}, of the other 31 become zero: ${
      answers.map((answer, i) => `${zeros(answer)} in ${formats[i][1]}`).join("; ")}.`;
  },
  command: (state) => `python3 -c 'import numpy; numpy.save("block.npy", numpy.float32([${
    numbers(state).join(", ")}]))'\nhalfulp quantize block.npy --format ${state.format} --out rounded.npy`,
  python: (state) => `import halfulp, numpy as np\nx = np.float32([${
    numbers(state).join(", ")}])\nprint(halfulp.quantize(x, "${state.format}"))`,
};
