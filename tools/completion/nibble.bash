# Bash completion of nibble. Subcommands and flags are read from the program's own --help, so this cannot fall behind it.

# The subcommands in the help of these words.
_nibble_commands() { "$@" --help 2>/dev/null | sed -nE '/^Subcommands:/,$ s/^  ([a-z]+) .*/\1/p'; }

_nibble() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=("${COMP_WORDS[0]}") i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ " $(_nibble_commands "${command[@]}" | tr '\n' ' ')" == *" ${COMP_WORDS[i]} "* ]] || break
    command+=("${COMP_WORDS[i]}")
  done

  case $previous in
    -m | --model | -o | --output) compopt -o dirnames 2>/dev/null; return ;;
    -f | --file | --chat | --tokens-file | --problems | --out | --audit | --compare | --text | --config | --svg | -j | --json-schema | --api-key-file | --tls-cert | --tls-key) compopt -o default 2>/dev/null; return ;;
    --device) COMPREPLY=($(compgen -W 'auto cpu cuda' -- "$word")); return ;;
    --isa) COMPREPLY=($(compgen -W 'portable avx2 avx512' -- "$word")); return ;;
    --require) COMPREPLY=($(compgen -W 'cpu avx2 avx512 cuda' -- "$word")); return ;;
    --precision) COMPREPLY=($(compgen -W 'exact bf16' -- "$word")); return ;;
    --mla) COMPREPLY=($(compgen -W 'absorbed expanded' -- "$word")); return ;;
    --pin) COMPREPLY=($(compgen -W 'auto on off' -- "$word")); return ;;
    --numa) COMPREPLY=($(compgen -W 'auto interleave off' -- "$word")); return ;;
    --effort) COMPREPLY=($(compgen -W 'low high max' -- "$word")); return ;;
  esac

  local offered
  if [[ $word == -* ]]; then
    offered=$("${command[@]}" --help 2>/dev/null | sed -nE 's/^ +(-[^ ]+).*/\1/p' | tr ',' '\n')
  else
    offered=$(_nibble_commands "${command[@]}")
  fi
  if [[ -z $offered ]]; then
    compopt -o default 2>/dev/null
    return
  fi
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
}

complete -F _nibble nibble
