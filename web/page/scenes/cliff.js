// Scene 3. Gradients over the ranges of formats: what vanishes, and how a loss scale brings it back.
import {counted, drawing, element, numbers_of, percent, raised, shown, shown_power, table} from "../dom.js";
import {read_tensor} from "../files.js";
import {axis} from "../plot.js";
import {recorded} from "./recorded.js";

let file;  // what was dropped here: no address holds it
const classes = ["zero", "subnormal", "normal", "overflow"];

/** Takes a file; what is wrong with it is said at its control. */
async function take(given, {set}) {
  const words = document.getElementById("file-error"), input = document.getElementById("file");
  const say = (text) => {
    words.textContent = text;
    input.toggleAttribute("aria-invalid", text !== "");
  };
  try {
    file = await read_tensor(given);
    say("");
    await set({source: "file"});
  } catch (error) { say(error.message); }
  input.value = "";  // its name stands in the table
}

export const cliff = {
  id: "cliff",
  title: "Cliff",
  question: "Which gradients vanish, and which loss scale brings them back?",
  explanation: "underflow",
  fields: [
    {
      name: "source",
      label: "Gradients",
      kind: "choice",
      start: "made",
      options:
        [["made", "made up: log-normal"], ["training", "of a transformer\u2019s training"], ["file", "of your file"]]
    },
    {
      name: "median",
      label: "Median of made ones",
      kind: "range",
      start: "-18",
      least: -60,
      most: 20,
      said: (k) => raised(2, k),
      when: (state) => state.source === "made"
    },
    {
      name: "sigma",
      label: "Their width",
      kind: "range",
      start: "4",
      least: 1,
      most: 12,
      said: (k) => `${k} binades (standard deviation)`,
      when: (state) => state.source === "made"
    },
    {name: "scale", label: "Loss scale", kind: "range", start: "0", least: -16, most: 40, said: (k) => raised(2, k)},
    {name: "formats", label: "Formats", kind: "text", start: "fp16,bf16,e5m2,e4m3", help: "up to six, with commas"},
  ],
  tools: (tools) => {
    const input = element("input", {
      type: "file",
      id: "file",
      "aria-describedby": "file-help file-error",
      accept: ".npy,.safetensors",
      onchange: () => input.files[0] && take(input.files[0], tools)
    });
    return [element("div", {class: "field"},
      element("label",
        {for: "file"
        },
        "Your tensor"),
      input,
      element("p", {id: "file-help", class: "help"},
        ".npy or .safetensors, also dropped anywhere on the page. It stays on this machine."),
      element("p", {id: "file-error", class: "error", role: "alert"}))];
  },
  dropped: take,
  ask(state, lab) {
    const asked = {...state, count: 4096, seed: 1};
    if (state.formats.split(",").length > 6 || state.formats.split(",").includes(""))
      throw new Error(`Formats: '${state.formats.slice(0, 60)}'; accepted: one to six names with commas`);
    if (state.source === "made") return lab.ask("gradients", asked);
    if (state.source === "training") return lab.ask("gradients", asked, recorded());
    if (!file) throw new Error("Gradients: no file is here yet; accepted: choose one below, or drop it on the page");
    return file.values.length > 20000 ? lab.later("gradients", asked, file.values)
                                      : lab.ask("gradients", asked, file.values);
  },
  draw(answer, state, {width, size}) {
    const scale = Number(state.scale), bars = answer.binades.map(([binade, n]) => [binade + scale, n]);
    const exponent = (x) => Math.floor(Math.log2(x));
    // The gradients and the ends of bands near them; wide bands go on beyond the picture.
    const first = Math.min(...bars.map(([k]) => k)), last = Math.max(...bars.map(([k]) => k)),
          ends = answer.formats.flatMap((f) => [exponent(f.smallest), exponent(f.largest)])
                   .filter((k) => k > first - 28 && k < last + 28);
    const low = Math.min(first, ...ends) - 2, high = Math.max(last, ...ends) + 3;
    const left = 5 * size, pixels = axis(low, high, left, width - 8), top = size, foot = 11 * size, row = 3.4 * size,
          height = foot + 3 * size + row * answer.formats.length;
    const tallest = Math.max(1, ...bars.map(([, n]) => n)), clamp = (at) => Math.max(left, Math.min(width - 8, at));
    return [
      drawing("svg", {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        role: "img",
        "aria-label": `Histogram of ${counted(answer.count, "gradient")} times ${
          raised(2, state.scale)}, by powers of two, over the ranges of ${answer.formats.length} formats`
      },
        bars.map(([k, n]) => drawing("rect", {
          x: pixels.at(k) + 0.5,
          width: Math.max(1, pixels.at(k + 1) - pixels.at(k) - 1),
          y: foot - (foot - top) * n / tallest,
          height: (foot - top) * n / tallest,
          class: "bar"
        })),
        pixels.ticks(Math.max(2, width / (6 * size)))
          .map((k) => drawing("g", {class: "tick"},
                 drawing("line", {x1: pixels.at(k), x2: pixels.at(k), y1: foot, y2: height - 1.4 * size}),
                 drawing("text", {x: pixels.at(k), y: height - 2, "text-anchor": "middle"}, raised(2, k)))),
        answer.formats.map((f, i) => {
          const y = foot + size + i * row, a = clamp(pixels.at(exponent(f.smallest))),
                b = clamp(pixels.at(exponent(f.smallest_normal))), c = clamp(pixels.at(Math.log2(f.largest)));
          return drawing("g", {class: "range"}, drawing("text", {x: 4, y: y + size}, f.format),
            drawing("rect", {x: a, y: y + 4, width: Math.max(0, b - a), height: 12, class: "subnormal"}),
            drawing("rect", {x: b, y, width: Math.max(0, c - b), height: 20, class: "normal"}),
            drawing("text", {x: left, y: y + 20 + size},
              `${percent(f.zero / answer.count)} vanish, ${percent(f.overflow / answer.count)} overflow`));
        })),
      element("p", {class: "key"},
        "Bars: gradients times the loss scale, by power of two. Thick bands: a format\u2019s normal numbers; thin ones: its subnormal numbers. Left of a band gradients become zero."),
      table(`What becomes of ${counted(answer.count, "gradient")}${
              state.source === "file" ? ` of ${file.name}${file.tensor ? `, ${file.tensor}` : ""}${
                                          file.count > file.values.length ? ` (the first of ${file.count})` : ""}`
                                                                          : ""                                    } times ${raised(2, state.scale)}`,
        ["format", ...classes, "smallest", "largest"],
        answer.formats.map(
          (f) => [f.format, ...classes.map((name) => String(f[name])), shown_power(f.smallest), shown(f.largest)])),
      numbers_of("The histogram in numbers", ["from", "to", "gradients"],
        () => bars.map(([k, n]) => [raised(2, k), raised(2, k + 1), String(n)])),
      (answer.zeros > 0 || answer.non_finite > 0) &&
        element("p", {},
          `Not counted: ${answer.zeros} that are zero already, ${answer.non_finite} that are infinite or NaN.`),
    ];
  },
  say: (answer, state) => `At loss scale ${raised(2, state.scale)}: ${
    answer.formats
      .map((f) => `${f.format}: ${percent(f.zero / answer.count)} vanish${
             f.overflow ? `, ${percent(f.overflow / answer.count)} overflow` : ""}`)
      .join("; ")}. In ${answer.formats[0].format} nothing overflows up to ${
    raised(2, Math.floor(Math.log2(answer.formats[0].largest)) - answer.binades.at(-1)[0] - 1)}.`,
  command: (state) =>
    `${
      state.source === "training"
        ? "halfulp run training --set networks=transformer --set policies=fp32 --set seeds=1 --set save_gradients=gradients && "
        : ""}halfulp run underflow --set formats=${state.formats} --set roundings=nearest-even --set scale_from=${
      state.scale} --set scale_to=${state.scale}` +
    (state.source === "file" ? ` --set input=${file?.name ?? "FILE.npy"}`
        : state.source === "training"
        ? " --set input=gradients"
        : ` --set distributions=log-normal --set log2_median=${state.median} --set log2_sigma=${
            state.sigma} --set count=4096 --set seed=1`) +
    " && halfulp show reports/underflow.json scale_sweep",
  python: (state) => `import halfulp, numpy as np\ng = np.load("${
    state.source === "file" && file && !file.tensor
      ? file.name
      : "gradients.npy"}")  # halfulp sample --out gradients.npy --shape 4096 --median ${state.median} --sigma ${
    state.sigma}\nfor name in "${state.formats}".split(","):\n    r = halfulp.quantize(g.astype(np.float64) * 2.0**${
    state.scale}, name)\n    print(name, "vanish:", ((r == 0) & (g != 0)).sum(), "overflow:", (~np.isfinite(r)).sum())`,
};
