#!/usr/bin/env bash
# venv.sh FOLDER MODULE...: makes a virtual environment with other people's Python libraries, unless it exists. Prints
# nothing, or what went wrong (status 1). pip's output goes to standard error. Concurrent calls wait for each other.
set -uo pipefail
venv=$1
shift
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9

# Without the system's packages: a numpy from PyPI does not fit the system's matplotlib.
grep -qs 'include-system-site-packages = true' "$venv/pyvenv.cfg" && rm -rf "$venv"
if [ ! -x "$venv/bin/pip" ] && ! python3 -m venv "$venv" >&2; then
  echo "python3 -m venv failed"
  exit 1
fi
missing=()
for module in "$@"; do
  "$venv/bin/python" -c "import $module" 2>/dev/null || missing+=("$module")
done
[ ${#missing[@]} -eq 0 ] && exit 0

install=("$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 10)
# torch only for CPUs is a tenth of the size of the usual one. Where its index cannot be reached, pip would try that
# again for each of the many packages of the other.
if [[ " ${missing[*]} " == *" torch "* ]]; then
  small=https://download.pytorch.org/whl/cpu
  "$venv/bin/python" -c "import urllib.request; urllib.request.urlopen('$small/', timeout=10)" 2>/dev/null &&
    "${install[@]}" --index-url "$small" --extra-index-url https://pypi.org/simple torch >&2
fi
"${install[@]}" "${missing[@]}" >&2 && exit 0
echo "pip install failed"
exit 1
