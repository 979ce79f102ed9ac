// Scene 6. Which tokens share a position id, and what becomes of rotary angles and attention scores.
import {element, numbers_of, shown, table} from "../dom.js";
import {chart} from "../plot.js";

const last_token = (state) => 2 ** Number(state.tokens) - 1;

export const positions = {
  id: "positions",
  title: "Positions",
  question: "Which tokens get the same position, and what becomes of attention?",
  explanation: "position-ids",
  fields: [
    {name: "format", label: "Format of ids", kind: "format", start: "bf16"},
    {name: "tokens", label: "Tokens", kind: "range", start: "11", least: 3, most: 17, said: (k) => `${2 ** k} tokens`},
    {name: "token", label: "Token", kind: "whole", start: "1001", least: 0, most: 131071},
  ],
  play: "token",
  settled: (state) => Number(state.token) > last_token(state) ? {...state, token: String(last_token(state))} : state,
  last: last_token,
  ask: (state, lab) =>
    lab.ask("positions", {format: state.format, tokens: 2 ** Number(state.tokens), token: state.token}),
  draw(answer, state, {width, size, tall, set}) {
    const token = Number(state.token);
    let group = 0;
    const tiles = answer.near.map(([n, id], i) => {
      if (i && id !== answer.near[i - 1][1]) ++group;
      const shared = answer.near.filter(([, other]) => other === id).length > 1;
      return element("button", {
        type: "button",
        class: `token ${group % 2 ? "odd" : "even"}${shared ? " shared" : ""}${
          i && id !== answer.near[i - 1][1] ? " begins" : ""}`,
        "data-key": `t${n}`,
        "aria-pressed": n === token,
        "data-first": n === token,
        "aria-label": `token ${n}: id ${shown(id)}${shared ? ", shared" : ""}`,
        onclick: () => set({token: String(n)})
      },
        element("b", {}, String(n)), element("span", {}, shown(id)));
    });
    const errors =
      answer.angles.map(([, , error], i) => [i, typeof error === "number" ? Math.abs(error) : NaN]).filter(([,
        error]) => error > 0);
    const largest = Math.max(1e-9, ...errors.map(([, error]) => error)),
          smallest = Math.max(1e-12, Math.min(1, ...errors.map(([, error]) => error)));
    return [
      element("div", {class: "tokens", role: "group", "data-group": true, "aria-label": "Tokens and their ids"}, tiles),
      element("p", {class: "key"},
        "Each tile: a token, and below it its id. Tokens that share an id touch, have a double border, and the tint of their group."),
      chart({
        width,
        size,
        height: tall(260),
        about: "Attention score by distance, of exact positions and of rounded ids",
        x: {low: 0, high: Math.max(1, answer.scores.at(-1)[0]), name: "tokens between query and key"},
        y: {
          low: Math.min(0, ...answer.scores.flat().slice(1).filter((x) => typeof x === "number" && x < 0)) - 0.05,
          high: 1.05,
          name: "score"
        },
        series: [
          {name: "exact", points: answer.scores.map(([d, exact]) => [d, exact]), mark: 9}, {
            name: `ids in ${state.format}`,
            points: answer.scores.map(([d, , rounded]) => [d, rounded]),
            kind: "dots",
            mark: 1
          }
        ]
      }),
      chart({
        width,
        size,
        height: tall(240),
        about: "Error of the rotary angle, by frequency",
        x: {low: 0, high: 63, name: "frequency, from the fastest to the slowest"},
        y: {
          low: 10 ** Math.floor(Math.log10(smallest)),
          high: 10 ** Math.ceil(Math.log10(largest)),
          log: 10,
          name: "error in radians"
        },
        series: [{points: errors, kind: "dots", mark: 1}],
        lines: [{y: Math.PI, name: "\u03c0: at random"}]
      }),
      table(`${2 ** Number(state.tokens)} tokens in ${state.format}`, ["what", "how many"],
        [
          ["different ids", String(answer.distinct)],
          [
            "first token with the id of the one before",
            answer.first_clash === null ? "none" : String(answer.first_clash)
          ],
          ["most tokens with one id", String(answer.largest_group)],
          ["ids that are infinite or NaN", String(answer.overflowed)]
        ]),
      numbers_of("The scores in numbers", ["distance", "exact", `ids in ${state.format}`],
        () => answer.scores.map(([d, exact, rounded]) => [String(d), shown(exact, 4), shown(rounded, 4)])),
      numbers_of("The angles in numbers", ["frequency", "exact angle", "angle of the id", "error"],
        () =>
          answer.angles.map(([exact, angle, error], i) => [String(i), shown(exact), shown(angle), shown(error, 3)])),
      element("p", {class: "key"},
        "Rotary embedding of 128 dimensions, base 10000, angles in FP32. The score is that of a query and a key which were equal before their rotation."),
    ];
  },
  say(answer, state) {
    const token = Number(state.token), fastest = answer.angles[0][2];
    return `${2 ** Number(state.tokens)} tokens have ${answer.distinct} ids in ${state.format}${
      answer.first_clash === null
        ? ""
        : `; token ${answer.first_clash} is the first to share one`}. Token ${token} has id ${shown(answer.id)}; ${
      typeof fastest === "number"
        ? `its fastest angle is off by ${shown(Math.abs(fastest), 3)} ${Math.abs(fastest) === 1 ? "radian" : "radians"}`
        : "it has no angle"}.`;
  },
  command: (state) => `halfulp run position_ids --set formats=${state.format} --set lengths=${
    2 ** Number(state.tokens)} --set roundings=nearest-even && halfulp show reports/position_ids.json collisions`,
  python: (state) => `import halfulp, numpy as np\nids = halfulp.quantize(np.arange(${2 ** Number(state.tokens)}.0), "${
    state.format}")\nprint(len(np.unique(ids)), ids[${state.token}])`,
};
