#!/usr/bin/env bash
# with_python.sh MODULE[,MODULE...] ARGUMENT...: runs the first Python that has the modules with these arguments. Prints
# "skipped: REASON" if there is none.
set -uo pipefail
for python in ${HALFULP_PYTHON:-python3 /usr/bin/python3}; do
  if command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null; then
    HALFULP_PYTHON=$(command -v "$python") exec "$python" -B "${@:2}"
  fi
done
echo "skipped: no Python with $1"
