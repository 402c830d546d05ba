# Bash completion of nibble. Subcommands and flags are read from the program's own --help, so this cannot fall behind it.

_nibble() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done

  case $previous in
    -m | --model | --out) compopt -o dirnames 2>/dev/null; return ;;
    --chat | --problems | --tokens-file | --file) compopt -o default 2>/dev/null; return ;;
    --device) COMPREPLY=($(compgen -W 'auto cpu' -- "$word")); return ;;
    --isa | --require) COMPREPLY=($(compgen -W 'portable avx2 avx512' -- "$word")); return ;;
    --precision) COMPREPLY=($(compgen -W 'exact bf16' -- "$word")); return ;;
    --mla) COMPREPLY=($(compgen -W 'absorbed expanded' -- "$word")); return ;;
  esac

  local help
  if [[ $word == -* ]]; then
    help=$("${COMP_WORDS[0]}" $command --help 2>/dev/null | sed -nE 's/^ +(-[^ ]+).*/\1/p' | tr ',' '\n')
  elif [[ -z $command ]]; then
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null | sed -nE '/^[Ss](ubcommands|UBCOMMANDS):/,$ s/^  ([a-z]+) .*/\1/p')
  else
    compopt -o default 2>/dev/null
    return
  fi
  COMPREPLY=($(compgen -W "$help" -- "$word"))
}

complete -F _nibble nibble
