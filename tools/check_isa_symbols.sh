#!/usr/bin/env bash
# Object files compiled for one instruction set must define no weak symbol but in that set's own namespace: the linker
# would be free to give that copy to code that runs on every machine. Run on a build without optimisation, where nothing is
# inlined by accident.
# usage: check_isa_symbols.sh BUILD_DIR
set -u
found=0
for set in avx2 avx512 avx512bf16 amx; do
  own="^_ZZ?NK?6nibble3cpu${#set}$set"   # nibble::cpu::SET::..., or what is local to a function there, as compilers write it
  for object in "$1"/src/cpu/CMakeFiles/nibble_cpu_$set.dir/kernels/*.o; do
    weak=$(nm --defined-only "$object" | awk -v own="$own" '$2 ~ /^[WVu]$/ && $3 !~ own {print $3}' | c++filt)
    if [ -n "$weak" ]; then
      printf '%s defines weak symbols:\n%s\n' "$object" "$weak"
      found=1
    fi
  done
done
exit $found
