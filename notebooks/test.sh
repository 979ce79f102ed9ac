#!/usr/bin/env bash
# test.sh SOURCE BUILD VENV RAN: runs every notebook with the package of the build tree, those that need torch by the
# Python that has it, if there is one, and leaves those that ran in the folder RAN. Prints "skipped: REASON" where that
# is impossible.
set -uo pipefail
source=$1
build=$2
venv=$3
export HALFULP_RAN=$4
rm -rf "$HALFULP_RAN"
if [ ! -x "$venv/bin/python" ] || ! compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  echo "skipped: the package was not built: ./run test does it where python3-dev, python3-venv and PyPI are"
  exit 0
fi
if ! "$venv/bin/python" -c "import nbclient, ipykernel, matplotlib, pandas" 2>/dev/null; then
  echo "skipped: the package was built, but nbclient, ipykernel, matplotlib and pandas could not be installed"
  exit 0
fi
torch=${HALFULP_TORCH_PYTHON:-$source/build/torch-venv/bin/python}
if "$torch" -c "import torch, nbclient, ipykernel, matplotlib, pandas" 2>/dev/null; then
  PYTHONPATH=$build/python "$torch" -m pytest -q -p no:cacheprovider --rootdir "$source/notebooks" "$source/notebooks" -k 10-model || exit
else
  echo "without torch: 10-model is not run"
fi
PYTHONPATH=$build/python exec "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir "$source/notebooks" "$source/notebooks" --durations=5
