// halfulp.wasm as functions of JavaScript: the program's own formats and arithmetic, compiled. Code words are BigInts. What
// the library refuses is an Error with the message that the program has.

/** Resolves to the functions of a module, given its bytes. */
export async function load(bytes) {
  const module = await WebAssembly.compile(bytes);
  let exports = instance();

  function instance() {
    let memory;
    const imports = {halfulp: {refuse: (at, size) => {
      throw new Error(new TextDecoder().decode(new Uint8Array(memory.buffer, at, size)));
    }}};
    // The C library of the module would write to standard error before it ends; nothing else of a system is there.
    for (const {module: from, name} of WebAssembly.Module.imports(module))
      if (from !== "halfulp") (imports[from] ??= {})[name] = () => { throw new Error(`the module ended in ${name}`); };
    const made = new WebAssembly.Instance(module, imports).exports;
    memory = made.memory;
    made._initialize();
    return made;
  }

  /** Calls a function with texts and numbers. After an error the instance is given up: nothing in it was unwound. */
  function call(name, ...given) {
    const taken = [];
    const words = given.flatMap((word) => {
      if (typeof word !== "string") return [word];
      const text = new TextEncoder().encode(word), at = exports.take(text.length);
      new Uint8Array(exports.memory.buffer, at, text.length).set(text);
      taken.push(at);
      return [at, text.length];
    });
    try {
      const answer = exports[name](...words);
      for (const at of taken) exports.give(at);
      return answer;
    } catch (error) {
      exports = instance();
      throw error;
    }
  }

  function text(at) {
    const bytes = new Uint8Array(exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  const code = (word) => BigInt.asUintN(64, word);
  return {
    /** The code word of a number such as "0.1", rounded once; `random`: the 32 bits of a stochastic rounding. */
    parse: (format, number, mode = "nearest-even", random = 0n) => code(call("parse", format, mode, number, random)),
    /** Every decimal digit of a code word's value. */
    exact: (format, word) => text(call("print_exact", format, word)),
    /** Digests of results, which the program has too: [{name, digest()}, ...]. */
    digests: () => Array.from({length: call("digest_count")}, (_, i) => ({
      name: text(call("digest_name", i)),
      digest: () => code(call("digest_of", i)).toString(16).padStart(16, "0"),
    })),
  };
}
