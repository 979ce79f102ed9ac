// The controls of a scene. A field has a name, a label, a start value, and says what it accepts; its value is text.
import {element} from "./dom.js";

const accepted = (field, text, words) => new Error(`${field.label}: '${text.slice(0, 60)}'; accepted: ${words}`);

/** Throws, in words, for text that a field does not take; gives it as the field writes it. */
export function checked(field, text) {
  if (field.kind === "choice" && !field.options.some(([value]) => value === text))
    throw accepted(field, text, field.options.map(([value]) => value).join(", "));
  if (field.kind === "range" || field.kind === "whole") {
    const x = /^\s*-?\d{1,17}\s*$/.test(text) ? Number(text) : NaN, step = field.step ?? 1;
    if (!(x >= field.least && x <= field.most) || Math.abs(x / step - Math.round(x / step)) > 1e-6)
      throw accepted(field, text, `${step === 1 ? "a whole number" : "a number"} from ${field.least} to ${field.most}`);
    return String(x);
  }
  if (text.length > 400) throw accepted(field, text, "at most 400 characters");
  return text.trim();
}

/**
 * The control of a field. `change(text)` is called with what its user enters; `show(text)` sets it, `refuse(words)`
 * says what was wrong with it until the next `show`.
 */
export function control(field, change) {
  const id = `field-${field.name}`, said = field.said ?? ((text) => text);
  const common = {id, "aria-describedby": `${id}-help ${id}-error`};
  const words = element("p", {id: `${id}-error`, class: "error"});
  let input, output;
  if (field.kind === "choice") {
    input = element("select", {...common, onchange: () => change(input.value)},
      field.options.map(([value, label]) => element("option", {value}, label)));
  } else if (field.kind === "range") {
    output = element("output", {for: id, "aria-live": "off"
    });
    input = element("input", {
      ...common,
      type: "range",
      min: field.least,
      max: field.most,
      step: field.step ?? 1,
      oninput: () => change(input.value)
    });
  } else {
    input = element("input", {
      ...common,
      type: "text",
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "none",
      inputmode: field.kind === "whole" ? "numeric" : undefined,
      list: field.kind === "format" ? "formats" : undefined,
      oninput: () => change(input.value)
    });
  }
  const root = element("div", {class: `field ${field.kind}`}, element("label", {for: id
  }, field.label), input, output, field.help && element("p", {id: `${id}-help`, class: "help"}, field.help), words);
  return {
    root,
    show(text) {
      // What is being typed stays as it is typed.
      if (document.activeElement !== input || field.kind === "choice" || field.kind === "range" ||
        checked(field, input.value) !== text)
        input.value = text;
      if (output && output.textContent !== said(text)) {
        output.textContent = said(text);
        input.setAttribute("aria-valuetext", said(text));
      }
      words.textContent = "";
      input.removeAttribute("aria-invalid");
    },
    refuse(why) {
      words.textContent = why;
      input.setAttribute("aria-invalid", "true");
    },
  };
}
