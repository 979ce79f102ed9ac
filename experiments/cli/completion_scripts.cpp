// What bash and zsh read. Both ask `halfulp completion words -- WORD...`, which answers WORD, Tab and what it is, a line each, and ":files".
#include <halfulp/experiments/cli/completion.hpp>

namespace halfulp::cli {

const CompletionScript completion_scripts[2] = {
    {"bash", R"script(# bash completion for halfulp: source <(halfulp completion bash)
_halfulp() {
  # Of the line up to the cursor, for bash itself splits words at = and : too.
  local line=${COMP_LINE:0:COMP_POINT} word='' text prefix files=''
  local -a words=()
  read -ra words <<<"$line"
  case $line in *[[:space:]]) words+=('') ;; esac
  word=${words[${#words[@]}-1]}
  COMPREPLY=()
  while IFS=$'\t' read -r text _; do
    if [[ $text == :files ]]; then files=yes; else COMPREPLY+=("$text"); fi
  done < <("${words[0]/#\~/$HOME}" completion words -- "${words[@]:1}" 2>/dev/null)
  # Readline replaces what stands behind the last = or :.
  prefix=${word%"${word##*[=:]}"}
  if [[ -n $prefix && $COMP_WORDBREAKS == *"${prefix: -1}"* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    word=${word#"$prefix"}
  elif [[ $word == --*=* ]]; then
    word=${word#*=}
  fi
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r text; do COMPREPLY+=("$text"); done < <(compgen -f -- "$word")
  fi
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:,] ]]; then compopt -o nospace 2>/dev/null; fi
}
complete -F _halfulp halfulp
)script"},
    {"zsh", R"script(#compdef halfulp
# zsh completion for halfulp: source <(halfulp completion zsh), or a file _halfulp in a folder of $fpath
_halfulp() {
  local word text files=''
  local -a whole whole_shown open open_shown
  while IFS=$'\t' read -r word text; do
    if [[ $word == :files ]]; then
      files=yes
    elif [[ $word == *[=:,] ]]; then
      open+=("$word") open_shown+=("$word${text:+  -- $text}")
    else
      whole+=("$word") whole_shown+=("$word${text:+  -- $text}")
    fi
  done < <("${(Q)words[1]/#\~/$HOME}" completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#whole )) && compadd -l -d whole_shown -a whole
  (( $#open )) && compadd -l -S '' -d open_shown -a open
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _halfulp ]]; then _halfulp "$@"; else compdef _halfulp halfulp; fi
)script"},
};

}  // namespace halfulp::cli
