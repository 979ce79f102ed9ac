// The page around the scenes: which one is shown, its controls, its address, the keys of a lecture.
//
// A scene is an object: id, title, question, explanation (a page of the documentation), fields (fields.js), and
// functions of its state, which maps fields to texts:
// - ask(state, lab): what there is to say, from the module; may be a promise; throws in words
// - draw(answer, state, tools): what is seen. tools: {width in pixels, size of letters, tall(height), set(changes), lab}.
//   A node with a data-key keeps the focus; within data-group the arrows move
// - say(answer, state): the same in a sentence or two, for everyone and for screen readers
// - command(state), python(state): the same numbers from the program and from the package
// - settled(state): the state as it should be, such as a term within the sum; may be absent
// - play, last(state): the field of steps, if they can run by themselves, and the last step if the state has one
// - drag(answer, state, x, y, width): changes of the state as a pointer drags over an element with data-drag
import {read, written} from "./address.js";
import {element} from "./dom.js";
import {checked, control} from "./fields.js";
import {open_lab} from "./lab.js";
import {bits} from "./scenes/bits.js";
import {block} from "./scenes/block.js";
import {cliff} from "./scenes/cliff.js";
import {line} from "./scenes/line.js";
import {positions} from "./scenes/positions.js";
import {product} from "./scenes/product.js";
import {staircase} from "./scenes/staircase.js";
import {sums} from "./scenes/sums.js";

const scenes = [bits, line, cliff, staircase, sums, positions, product, block];
const by_id = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");

async function begin() {
  const lab = await open_lab();
  by_id("formats").append(
    ...lab.ask("names", {}).formats.map(({name, title}) => element("option", {value: name}, title)));

  let now, controls = {}, answer, tickets = 0, timer;
  let waiting = {};  // texts that were refused with others: two fields may have to change before both are right
  const refused = new Set();  // fields whose text was refused, and stays until its user changes it
  let silence, drawn;
  const explanations = document.querySelector("meta[name=explanations]").content;

  by_id("scenes").append(
    ...scenes.map((scene, i) => element(
                    "li", {}, element("a", {href: `#${scene.id}`, id: `to-${scene.id}`}, `${i + 1} ${scene.title}`))));

  function report(words) {
    by_id("refused").textContent = words;
  }
  /** Says something to a screen reader, once its user has paused: neither every key nor every step of a run. */
  function speak(words) {
    clearTimeout(silence);
    silence = setTimeout(() => {
      if (!timer && by_id("spoken").textContent !== words) by_id("spoken").textContent = words;
    }, 700);
  }
  /** At the control that an error names, else at the one that was changed, else above the scene. */
  function refuse(error, changed) {
    let words = error.message, at = changed;
    for (const {name, label} of now.scene.fields)
      if (words.startsWith(`${name}: `) || words.startsWith(`${label}: `)) {
        if (words.startsWith(`${name}: `)) words = label + words.slice(name.length);
        if (!changed || name in controls) at = name;
      }
    if (at && controls[at]) {
      controls[at].refuse(words);
      refused.add(at);
      speak(words.split("; accepted")[0]);
    } else report(words);
  }

  /** Shows a scene at a state whose answer is known: the controls are made anew. */
  function enter(place, found) {
    stop();
    const from_links = document.activeElement?.closest("nav");
    now = {...place};
    answer = found;
    waiting = {};
    refused.clear();
    const {scene} = now;
    document.title = `${scene.title} \u2014 halfulp`;
    by_id("title").textContent = scene.title;
    by_id("question").textContent = scene.question;
    by_id("why").href = explanations.replace("{page}", scene.explanation);
    for (const one of scenes) {
      const link = by_id(`to-${one.id}`);
      if (one === scene) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    controls = {};
    by_id("controls")
      .replaceChildren(...scene.fields.map((field) => {
        controls[field.name] = control(field, (text) => change({[field.name]: text}, field.name));
        return controls[field.name].root;
      }),
        ...(scene.play ? [playing(scene.play)] : []),
        ...(scene.tools ? scene.tools({lab, set, change, refuse: report}) : []));
    look();
    shown_now();
    if (from_links) by_id("title").focus();
  }

  function look() {
    const {view, theme} = now.look;
    document.documentElement.dataset.theme = theme;
    document.body.classList.toggle("lecture", view === "lecture");
    by_id("lecture").setAttribute("aria-pressed", view === "lecture");
    by_id("theme").value = theme;
  }

  /**
   * Asks for the answer to a state and shows both; what is refused leaves the last good state. `otherwise`: the state
   * to try then.
   */
  async function show(wanted, changed, otherwise) {
    const ticket = ++tickets, {scene} = now, state = scene.settled?.(wanted) ?? wanted;
    try {
      const asked = scene.ask(state, lab), found = asked instanceof Promise ? await asked : asked;
      if (ticket !== tickets) return;  // something newer was asked for
      now.state = state;
      answer = found;
    } catch (error) {
      if (ticket !== tickets) return;
      if (otherwise) return show(otherwise, changed);
      stop();
      waiting[changed] = state[changed];
      refuse(error, changed);
      return;
    }
    for (const {name} of scene.fields)
      if (name === changed || waiting[name] === now.state[name]) {
        delete waiting[name];
        refused.delete(name);
      }
    shown_now();
  }
  function shown_now() {
    for (const {name, when} of now.scene.fields) {
      if (!refused.has(name)) controls[name].show(now.state[name]);
      controls[name].root.hidden = when !== undefined && !when(now.state);
    }
    report("");
    history.replaceState(null, "", written(now));
    draw();
  }

  function draw() {
    if (answer === undefined) return;
    const {scene, state} = now, key = document.activeElement?.dataset?.key, sentence = scene.say(answer, state);
    const width = drawn = Math.floor(by_id("stage").clientWidth),
          opened = [...by_id("stage").querySelectorAll("details")].map((one) => one.open);
    const lecture = now.look.view === "lecture";
    by_id("say").textContent = sentence;
    speak(sentence);
    by_id("stage").replaceChildren(...[scene.draw(answer, state, {
      width,
      size: lecture ? 20 : 13,
      tall: (height) => lecture ? Math.max(240, Math.round(innerHeight * 0.5)) : height,
      set,
      lab
    })].flat(Infinity)
        .filter((node) => node));
    by_id("stage").querySelectorAll("details").forEach((one, i) => {
      one.open = opened[i] ?? false;
    });
    // A group of buttons is one stop of the tabulator; arrows move within.
    for (const group of document.querySelectorAll("[data-group]")) {
      const buttons = [...group.querySelectorAll("button")],
            one = buttons.find((button) => button.dataset.key === key) ??
        buttons.find((button) => button.hasAttribute("data-first")) ?? buttons[0];
      for (const button of buttons) button.tabIndex = button === one ? 0 : -1;
    }
    if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
    by_id("command").textContent = scene.command(state, answer);
    by_id("python").textContent = scene.python(state, answer);
  }

  /** Takes what was entered in a control. */
  function change(changes, changed) {
    const state = {...now.state};
    delete waiting[changed];
    refused.delete(changed);
    try {
      for (const [name, text] of Object.entries(changes))
        state[name] = checked(now.scene.fields.find((field) => field.name === name), String(text));
    } catch (error) {
      ++tickets;
      refuse(error, changed);
      return;
    }
    return Object.keys(waiting).length ? show({...state, ...waiting, [changed]: state[changed]}, changed, state)
                                       : show(state, changed);
  }
  const set = (changes) => change(changes, Object.keys(changes)[0]);

  // Steps by hand, or one after the other.
  function stop() {
    if (timer) speak(by_id("say").textContent);
    clearInterval(timer);
    timer = undefined;
    const run = by_id("run");
    if (run) run.textContent = "Run";
  }
  function playing(name) {
    const field = () => now.scene.fields.find((one) => one.name === name);
    const most = () => Math.min(field().most, now.scene.last?.(now.state) ?? Infinity);
    const by = (steps) => Math.min(most(), Math.max(field().least, Number(now.state[name]) + steps));
    const run = element("button", {
      id: "run",
      type: "button",
      onclick: () => {
        if (timer) return stop();
        if (still.matches) return set({[name]: most()});
        if (by(1) === Number(now.state[name])) set({[name]: field().least});
        run.textContent = "Stop";
        const stride = Math.max(1, Math.round((most() - field().least) / 200));
        timer = setInterval(() => {
          if (by(1) === Number(now.state[name])) stop();
          else set({[name]: by(stride)});
        }, 60);
      }
    },
      "Run");
    return element("div", {class: "field play"},
      element("button", {
        type: "button",
        onclick: () => {
          stop();
          set({[name]: by(-1)});
        }
      },
        "One step back"),
      element("button", {
        type: "button",
        onclick: () => {
          stop();
          set({[name]: by(1)});
        }
      },
        "One step"),
      run);
  }

  // Dragging over a drawing.
  const stage = by_id("stage");
  let dragged;  // where it began
  const drag = (event) => {
    if (!dragged || answer === undefined) return;
    // A finger that goes up or down scrolls.
    if (event.pointerType === "touch" && !dragged.moves &&
      !(dragged.moves = Math.abs(event.clientX - dragged.x) > 8 + Math.abs(event.clientY - dragged.y)))
      return;
    const svg = stage.querySelector("[data-drag]"), box = svg?.getBoundingClientRect();
    if (!svg) return;
    const changes = now.scene.drag(answer, now.state, event.clientX - box.left, event.clientY - box.top, box.width);
    if (changes) set(changes);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("[data-drag]")) return;
    dragged = {x: event.clientX, y: event.clientY};
    stage.setPointerCapture(event.pointerId);
    drag(event);
    if (event.pointerType !== "touch") event.preventDefault();
  });
  stage.addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"])
    stage.addEventListener(end, () => {
      dragged = undefined;
    });

  // Addresses.
  /** Goes where the address points, if there is something to show; else it stays. */
  async function follow() {
    const ticket = ++tickets;
    let place, found;
    try {
      place = read(location.hash, scenes);
      place.state = place.scene.settled?.(place.state) ?? place.state;
      if (now && !location.hash.includes("?")) place.look = now.look;  // from scene to scene
      found = await place.scene.ask(place.state, lab);
    } catch (error) {
      if (ticket !== tickets) return;
      if (now) history.replaceState(null, "", written(now));
      else {
        const id = location.hash.slice(1).split("?")[0],
              start = read(scenes.some((one) => one.id === id) ? `#${id}` : "", scenes);
        enter(start, await start.scene.ask(start.state, lab));
      }
      report(`The address: ${error.message}`);
      return;
    }
    if (ticket === tickets) enter(place, found);
  }
  addEventListener("hashchange", follow);
  by_id("skip").addEventListener("click", () => by_id("title").focus());
  stage.addEventListener("keydown", (event) => {
    const group = event.target.closest("[data-group]"), by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!group || !by) return;
    const buttons = [...group.querySelectorAll("button")],
          next = buttons[buttons.indexOf(event.target.closest("button")) + by];
    if (!next) return;
    event.preventDefault();
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  });
  function go(by) {
    const at = scenes.indexOf(now.scene) + by;
    if (at < 0 || at >= scenes.length) return;
    location.hash = scenes[at].id;
    by_id("title").focus();
  }
  function watch(changes) {
    Object.assign(now.look, changes);
    look();
    shown_now();
  }
  by_id("lecture").addEventListener("click", () => watch({view: now.look.view === "lecture" ? "page" : "lecture"}));
  by_id("theme").addEventListener("change", (event) => watch({theme: event.target.value}));
  by_id("previous").addEventListener("click", () => go(-1));
  by_id("next").addEventListener("click", () => go(1));
  addEventListener("keydown", (event) => {
    if (now.look.view !== "lecture" || event.altKey || event.ctrlKey || event.metaKey) return;
    const typing = event.target.closest("input, select, [role=region], [data-group]"),
          page = {PageDown: 1, PageUp: -1}[event.key];
    const by = page ?? (typing ? undefined : {ArrowRight: 1, ArrowLeft: -1}[event.key]);
    if (by) {
      event.preventDefault();
      go(by);
    } else if (event.key === "Escape") watch({view: "page"});
  });
  for (const button of document.querySelectorAll("button[data-copy]"))
    button.addEventListener("click", async () => {
      const source = by_id(button.dataset.copy), selection = getSelection();
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch (error) {
        selection.selectAllChildren(source);
        done = document.execCommand("copy");
      }
      by_id("copied").textContent =
        done ? `${button.dataset.what} is copied.` : `Select it and copy it: this browser does not let a page do that.`;
    });
  new ResizeObserver(() => {
    if (Math.floor(stage.clientWidth) !== drawn) draw();
  }).observe(stage);
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    if (now.scene.dropped) now.scene.dropped(event.dataTransfer.files[0], {lab, set, refuse: report});
    else report("no file is needed here; scene 3, Cliff, takes tensors");
  });
  await follow();
  document.documentElement.dataset.ready = "yes";
}

begin().catch((error) => {
  document.getElementById("refused").textContent = `This browser cannot run the module: ${error.message}`;
});
