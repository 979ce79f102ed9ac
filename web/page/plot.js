// Charts as SVG: curves and marks over two axes. What a colour says, a dash pattern and a word at the curve say too.
import {drawing, raised, shown} from "./dom.js";

/** One axis: numbers to pixels and back. `log`: 2 or 10. */
export function axis(low, high, from, to, log = 0) {
  const inner = log ? (x) => Math.log(x) / Math.log(log) : (x) => x, outer = log ? (x) => log ** x : (x) => x;
  const begin = inner(low), end = inner(high);
  return {
    low,
    high,
    log,
    at: (x) => from + (inner(x) - begin) / (end - begin) * (to - from),
    value: (pixel) => outer(begin + (pixel - from) / (to - from) * (end - begin)),
    /** At most `most` round numbers. */
    ticks(most) {
      const span = end - begin,
            whole = [1, 2, 3, 4, 5, 8, 10, 20, 40, 80, 160, 400].find((step) => span / step <= most) ?? 1000;
      let step = whole;
      if (!log) {
        const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
        step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
      }
      const ticks = [];
      for (let i = Math.ceil(begin / step - 1e-9); i * step <= end + 1e-9 * span; ++i)
        ticks.push(outer(Number((i * step).toPrecision(12))));
      return ticks;
    },
  };
}

const named = (axis, x) => axis.log ? raised(axis.log, Math.round(Math.log(x) / Math.log(axis.log))) : shown(x, 4);

/**
 * A chart: `series` of {name, points: [[x, y]], kind: "line" | "step" | "dots"}, `lines` of {name, y} across. `about`
 * says in words what is seen. Points that no axis holds are left out.
 */
export function chart({width, height = 300, size = 13, x, y, series = [], lines = [], about}) {
  // Names stand behind the curves, or below the axis where the screen is narrow.
  const narrow = width < 40 * size, listed = [...series, ...lines].filter((one) => one.name),
        foot = narrow ? listed.length * size * 1.3 + 8 : 0;
  height += foot;
  const left = 6 * size, right = narrow ? size : 11 * size, top = size, bottom = 3.6 * size + foot;
  const across = axis(x.low, x.high, left, width - right, x.log), up = axis(y.low, y.high, height - bottom, top, y.log);
  const inside = ([a, b]) =>
    typeof a === "number" && typeof b === "number" && a >= x.low && a <= x.high && b >= y.low && b <= y.high;
  const names = [];  // where names stand already
  const free = (wanted) => {
    let at = wanted;
    for (const other of [...names].sort((a, b) => a - b))
      if (Math.abs(other - at) < 1.15 * size) at = other + 1.15 * size;
    names.push(at);
    return at;
  };
  let row = 0;
  const name_at = (pixel, name) =>
    narrow ? {x: left + 2.5 * size, y: height - foot + 1.3 * size * ++row} : {x: width - right + 6, y: free(pixel + 4)};
  const sample = (at) => narrow && drawing("path", {d: `M${left} ${at.y - size / 3}h${2 * size}`, fill: "none"});
  return drawing("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": about},
    across.ticks(Math.max(2, width / (7 * size)))
      .map((tick) => drawing("g", {class: "tick"},
             drawing("line", {x1: across.at(tick), x2: across.at(tick), y1: top, y2: height - bottom}),
             drawing("text", {x: across.at(tick), y: height - bottom + 1.2 * size, "text-anchor": "middle"},
               named(across, tick)))),
    up.ticks((height - foot) / (3.5 * size))
      .map((tick) => drawing("g", {class: "tick"},
             drawing("line", {x1: left, x2: width - right, y1: up.at(tick), y2: up.at(tick)}),
             drawing("text", {x: left - 6, y: up.at(tick) + 4, "text-anchor": "end"}, named(up, tick)))),
    drawing("text", {x: (left + width - right) / 2, y: height - foot - size / 2, "text-anchor": "middle"}, x.name),
    drawing("text", {
      x: size,
      y: (top + height - bottom) / 2,
      "text-anchor": "middle",
      transform: `rotate(-90 ${size} ${(top + height - bottom) / 2})`
    },
      y.name),
    lines.filter((line) => line.y >= y.low && line.y <= y.high)
      .map((line) => drawing("g", {class: "bound"},
             drawing("line", {x1: left, x2: width - right, y1: up.at(line.y), y2: up.at(line.y)}),
             ((at) => [sample(at), drawing("text", at, line.name)])(name_at(up.at(line.y))))),
    series.map(({name, points, kind = "line", mark}, i) => {
      const within = points.filter(inside).map(([a, b]) => [across.at(a), up.at(b)]);
      if (!within.length) return undefined;
      const last = within.at(-1), at = name && name_at(last[1]);
      const path = within
                     .map(([a, b], j) => j === 0 ? `M${a.toFixed(1)} ${b.toFixed(1)}`
                         : kind === "step" ? `H${a.toFixed(1)}V${b.toFixed(1)}`
                                           : `L${a.toFixed(1)} ${b.toFixed(1)}`)
                     .join("");
      return drawing("g", {class: `series s${mark ?? i}`},
        kind === "dots" || within.length === 1
          ? within.map(([a, b]) => drawing("circle", {cx: a.toFixed(1), cy: b.toFixed(1), r: 3}))
          : drawing("path", {d: path, fill: "none"}),
        name && [sample(at), drawing("text", at, name)]);
    }));
}
