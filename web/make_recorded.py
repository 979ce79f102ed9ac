#!/usr/bin/env python3
"""Makes web/page/scenes/recorded.js: 1024 gradients of a training, for the scene "Cliff".

  halfulp run training --set networks=transformer --set policies=fp32 --set seeds=1 --set save_gradients=FOLDER
  web/make_recorded.py FOLDER
"""
import base64
import pathlib
import sys

import numpy as np

COUNT = 1024
PAGE = pathlib.Path(__file__).resolve().parent / "page" / "scenes" / "recorded.js"


def main(folder: str) -> None:
    last = max(path for path in pathlib.Path(folder).iterdir() if path.is_dir())
    gradients = np.concatenate([np.load(path).astype(np.float32).ravel() for path in sorted(last.glob("*.npy"))])
    gradients = gradients[gradients != 0]
    chosen = gradients[np.linspace(0, gradients.size - 1, COUNT).astype(np.int64)]
    # bf16 has float's range, which is what the scene is about; the last bits are cut off.
    words = (chosen.view(np.uint32) >> 16).astype("<u2")
    PAGE.write_text(f"""// {COUNT} gradients of a transformer trained in FP32, of weights and activations alike, every {gradients.size // COUNT}th of
// those that are not zero, at {last.name}, as bf16: web/make_recorded.py.
const words = "{base64.b64encode(words.tobytes()).decode()}";

export function recorded() {{
  const bytes = Uint8Array.from(atob(words), (c) => c.charCodeAt(0)), view = new DataView(bytes.buffer), float = new DataView(new ArrayBuffer(4));
  return Float64Array.from({{length: bytes.length / 2}}, (_, i) => {{
    float.setUint32(0, view.getUint16(2 * i, true) << 16);
    return float.getFloat32(0);
  }});
}}
""", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
