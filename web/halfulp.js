// halfulp.wasm as functions of JavaScript: the program's own formats and arithmetic, compiled. Code words come as
// BigInts, and are taken as whole Numbers too. What the library refuses is an Error with the message that the program
// has; what is no text or no code word, a TypeError.

export function text_of(argument, given) {
  if (typeof given !== "string") throw new TypeError(`${argument}: ${String(given)}; accepted: text`);
  return given;
}
export function word_of(argument, given) {
  const word = Number.isSafeInteger(given) ? BigInt(given) : given;
  if (typeof word !== "bigint" || word < 0n || word >> 64n)
    throw new TypeError(`${argument}: ${String(given)}; accepted: 0n to 2n ** 64n - 1n`);
  return word;
}

/** Resolves to the functions of a module, given its bytes. */
export async function load(bytes) {
  const module = await WebAssembly.compile(bytes);
  let exports = instance();

  function instance() {
    let memory;
    const imports = {
      halfulp: {
        refuse: (at, size) => {
          throw new Error(new TextDecoder().decode(new Uint8Array(memory.buffer, at >>> 0, size)));
        }
      }
    };
    // The C library of the module would write to standard error before it ends; nothing else of a system is there.
    for (const {module: from, name} of WebAssembly.Module.imports(module))
      if (from !== "halfulp")
        (imports[from] ??= {})[name] = () => {
          throw new Error(`the module ended in ${name}`);
        };
    const made = new WebAssembly.Instance(module, imports).exports;
    memory = made.memory;
    made._initialize();
    return made;
  }

  /**
   * Calls a function with texts, arrays of doubles and numbers. After an error the instance is given up: nothing in it
   * was unwound.
   */
  function call(name, ...given) {
    const taken = [];
    try {
      const words = given.flatMap((word) => {
        const array = word instanceof Float64Array,
              bytes = array          ? new Uint8Array(word.buffer, word.byteOffset, word.byteLength)
          : typeof word === "string" ? new TextEncoder().encode(word)
                                     : undefined;
        if (!bytes) return [word];
        const at = exports.take(bytes.length + 1) >>> 0;  // addresses have no sign
        if (at === 0) throw new RangeError(`${bytes.length} bytes; accepted: what a module's memory holds`);
        new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
        taken.push(at);
        return [at, array ? word.length : bytes.length];
      });
      const answer = exports[name](...words);
      for (const at of taken) exports.give(at);
      return answer;
    } catch (error) {
      exports = instance();
      throw error;
    }
  }

  function text(at) {
    const bytes = new Uint8Array(exports.memory.buffer), begin = at >>> 0;
    return new TextDecoder().decode(bytes.subarray(begin, bytes.indexOf(0, begin)));
  }

  const code = (word) => BigInt.asUintN(64, word);
  return {
    /** The code word of a number such as "0.1", rounded once; `random`: the 32 bits of a stochastic rounding. */
    parse: (format, number, mode = "nearest-even", random = 0n) => code(call(
      "parse", text_of("format", format), text_of("mode", mode), text_of("number", number), word_of("random", random))),
    /** Every decimal digit of a code word's value. */
    exact: (format, word) => text(call("print_exact", text_of("format", format), word_of("word", word))),
    /** The answer to a question of the page (web/answers); `array`: a Float64Array that some questions take. */
    ask: (question, members, array = new Float64Array()) => JSON.parse(text(call("ask", question,
      Object.entries(members).map(([name, value]) => `${name} ${String(value).replaceAll("\n", " ")}\n`).join(""),
      array))),
    /** Digests of results, which the program has too: [{name, digest()}, ...]. */
    digests: () => Array.from({length: call("digest_count")}, (_, i) => ({
      name: text(call("digest_name", i)),
      digest: () => code(call("digest_of", i)).toString(16).padStart(16, "0"),
    })),
  };
}
