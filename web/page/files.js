// Tensors that are dropped on the page: .npy and .safetensors, read here and nowhere else. Only what is needed is read.

const most_read = 1 << 20;  // numbers; of larger tensors the first ones

const half = (word, exponent_bits, fraction_bits) => {
  const sign = word >> (exponent_bits + fraction_bits) ? -1 : 1, fraction = word & ((1 << fraction_bits) - 1);
  const exponent = (word >> fraction_bits) & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent === (1 << exponent_bits) - 1) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 1 + fraction / (1 << fraction_bits) : 2 * fraction / (1 << fraction_bits)) * 2 **
    (exponent - bias);
};
// By the names of both file formats: bytes of an element, and how one is read.
const kinds = {
  "<f8": [8, (view, at) => view.getFloat64(at, true)],
  "<f4": [4, (view, at) => view.getFloat32(at, true)],
  "<f2": [2, (view, at) => half(view.getUint16(at, true), 5, 10)],
  "BF16": [2, (view, at) => half(view.getUint16(at, true), 8, 7)],
};
const by_name = {
  F64: "<f8",
  F32: "<f4",
  F16: "<f2",
  BF16: "BF16"
};

async function bytes(file, from, size) {
  const buffer = await file.slice(from, from + size).arrayBuffer();
  if (buffer.byteLength !== size) throw new Error(`${file.name} ends after ${file.size} bytes; accepted: a whole file`);
  return new DataView(buffer);
}
function values(view, kind) {
  const [size, read] = kinds[kind];
  return Float64Array.from({length: view.byteLength / size}, (_, i) => read(view, i * size));
}

async function npy(file) {
  const start = await bytes(file, 0, Math.min(file.size, 12)), long = start.getUint8(6) > 1;
  if (start.getUint8(6) < 1 || start.getUint8(6) > 3)
    throw new Error(`${file.name} is of version ${start.getUint8(6)} of .npy; accepted: 1 to 3`);
  const begin = long ? 12 : 10, size = long ? start.getUint32(8, true) : start.getUint16(8, true);
  if (size > 1 << 16) throw new Error(`${file.name} has a header of ${size} bytes; accepted: NumPy's of at most 65536`);
  const header = new TextDecoder().decode(await bytes(file, begin, size));
  const kind = /'descr':\s*'([^']*)'/.exec(header)?.[1], shape = /'shape':\s*\(([\d,\s]*)\)/.exec(header)?.[1];
  if (shape === undefined && kind)
    throw new Error(`${file.name} has a shape that is no list of sizes; accepted: NumPy's`);
  if (shape === undefined || !(kind in kinds))
    throw new Error(
      `${file.name} holds ${kind ? `'${kind}'` : "no array"}; accepted: float16, float32 or float64, little-endian`);
  const count =
    shape.split(",").filter((extent) => extent.trim()).reduce((product, extent) => product * Number(extent), 1);
  return {count, values: values(await bytes(file, begin + size, Math.min(count, most_read) * kinds[kind][0]), kind)};
}

async function safetensors(file) {
  const size = Number((await bytes(file, 0, 8)).getBigUint64(0, true));
  if (size > 100e6 || size > file.size)
    throw new Error(`${file.name} begins with no header of safetensors; accepted: .npy and .safetensors`);
  let header;
  try {
    header = JSON.parse(new TextDecoder().decode(await bytes(file, 8, size)));
  } catch (error) { throw new Error(`${file.name} has a header that is no JSON; accepted: .npy and .safetensors`); }
  if (typeof header !== "object" || header === null)
    throw new Error(`${file.name} has a header that is no object; accepted: .npy and .safetensors`);
  const tensors = Object.entries(header).filter(
    ([name, tensor]) => name !== "__metadata__" && Object.hasOwn(by_name, tensor?.dtype ?? ""));
  if (!tensors.length)
    throw new Error(`${file.name} holds no tensor of ${Object.keys(by_name).join(", ")}; accepted: one of them`);
  for (const [name, {dtype, shape, data_offsets: offsets}] of tensors) {
    const sizes = Array.isArray(shape) && Array.isArray(offsets) && offsets.length === 2 &&
      [...shape, ...offsets].every((x) => Number.isSafeInteger(x) && x >= 0);
    if (!sizes || offsets[1] - offsets[0] !== shape.reduce((product, x) => product * x, kinds[by_name[dtype]][0]) ||
      8 + size + offsets[1] > file.size)
      throw new Error(`${file.name}: the tensor ${
        name.slice(0, 60)} has a shape and places that do not fit; accepted: a whole file of safetensors`);
  }
  const extent = ([, tensor]) => tensor.data_offsets[1] - tensor.data_offsets[0];
  const [name, tensor] = tensors.reduce((a, b) => extent(b) > extent(a) ? b : a);  // the largest
  const kind = by_name[tensor.dtype], count = extent([name, tensor]) / kinds[kind][0];
  return {
    count,
    tensor: name,
    values:
      values(await bytes(file, 8 + size + tensor.data_offsets[0], Math.min(count, most_read) * kinds[kind][0]), kind)
  };
}

/** {name, count, tensor?, values} of a file; throws one sentence for what is no tensor. */
export async function read_tensor(file) {
  if (!(file instanceof File) || file.size < 12)
    throw new Error(`${file?.name ?? "that"} is no tensor; accepted: .npy and .safetensors`);
  let magic;
  try {
    magic = [...new Uint8Array((await bytes(file, 0, 6)).buffer)].join();
  } catch (error) { throw new Error(`${file.name} cannot be read: is it a folder? accepted: .npy and .safetensors`); }
  const read = magic === "147,78,85,77,80,89" ? npy : /\.safetensors$/i.test(file.name) ? safetensors : undefined;
  if (!read) throw new Error(`${file.name} is no tensor; accepted: .npy and .safetensors`);
  const found = await read(file);
  if (!found.values.some((x) => Number.isFinite(x) && x !== 0))
    throw new Error(`${file.name} holds ${
      found.values.length ? "nothing but zeros, infinities and NaN"
                          : "no numbers"}; accepted: at least one other number`);
  return {name: file.name, ...found};
}
