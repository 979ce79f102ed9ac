// The module: at once for short questions, in a worker for long ones.
import {load, text_of, word_of} from "../halfulp.js";

/** Bytes of the module, which pack.py put into the page. */
async function module_bytes() {
  const squeezed = Uint8Array.from(atob(document.getElementById("module").textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([squeezed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** {ask, later}: an answer, or the promise of one. Both throw an Error in the program's words. */
export async function open_lab() {
  const bytes = await module_bytes(), module = await load(bytes);
  let worker, asked = 0;
  const waiting = new Map();

  function start() {
    // The door's own functions: a page that was opened as a file may load no other one.
    const source = `${text_of}\n${word_of}\nconst loading = (${load});
      let module;
      onmessage = async ({data: {bytes, id, question}}) => {
        try {
          module ??= await loading(bytes);
          postMessage({id, answer: module.ask(...question)});
        } catch (error) { postMessage({id, refused: error.message}); }
      };`;
    worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
    worker.onmessage = ({data: {id, answer, refused}}) => {
      const {resolve, reject} = waiting.get(id);
      waiting.delete(id);
      if (refused === undefined) resolve(answer);
      else reject(new Error(refused));
    };
  }
  return {
    ask: module.ask,
    later: (...question) => new Promise((resolve, reject) => {
      if (!worker) start();
      waiting.set(++asked, {resolve, reject});
      worker.postMessage({id: asked, question, bytes});
    }),
  };
}
