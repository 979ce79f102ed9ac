// A state as the part of an address behind #: scene?field=text&..., every field in its order, and how it is looked at.
import {checked} from "./fields.js";

const looks = {
  view: ["page", "lecture"],
  theme: ["system", "light", "dark"]
};

const escaped = (text) =>
  encodeURIComponent(text).replaceAll("%20", "+").replaceAll("%2C", ",").replaceAll("%2F", "/").replaceAll("%5E", "^");

/** The canonical address of a state. */
export function written({scene, state, look}) {
  const parts = scene.fields.map((field) => `${field.name}=${escaped(state[field.name])}`);
  for (const [name, [usual]] of Object.entries(looks))
    if (look[name] !== usual) parts.push(`${name}=${look[name]}`);
  return `#${scene.id}?${parts.join("&")}`;
}

/**
 * The state that an address stands for; what it does not name is as at the start. Throws, in words, for what no scene
 * has.
 */
export function read(hash, scenes) {
  const [id, query = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const scene = id ? scenes.find((one) => one.id === id) : scenes[0];
  if (!scene)
    throw new Error(`the address asks for '${id.slice(0, 40)}'; accepted: ${scenes.map((one) => one.id).join(", ")}`);
  const state = Object.fromEntries(scene.fields.map((field) => [field.name, field.start]));
  const look = Object.fromEntries(Object.entries(looks).map(([name, [usual]]) => [name, usual]));
  const seen = new Set();
  for (const part of query.split("&").filter((text) => text)) {
    const [name, value = ""] = part.split(/=(.*)/s);
    let text;
    try {
      text = decodeURIComponent(value.replaceAll("+", " "));
    } catch (error) {
      throw new Error(
        `the address has '${value.slice(0, 40)}', which is no text; accepted: % and two hexadecimal digits`);
    }
    const field = scene.fields.find((one) => one.name === name);
    if (seen.has(name)) throw new Error(`the address has ${name.slice(0, 40)} twice; accepted: each part once`);
    seen.add(name);
    if (field) state[name] = checked(field, text);
    else if (Object.hasOwn(looks, name) && looks[name].includes(text)) look[name] = text;
    else
      throw new Error(`the address has '${part.slice(0, 60)}'; accepted: ${
          [...scene.fields.map((one) => one.name), ...Object.keys(looks)].join(
            ", ")}${Object.hasOwn(looks, name) ? `; ${name} is ${looks[name].join(" or ")}` : ""}`);
  }
  return {scene, state, look};
}
