// The kernel table of one instruction set: constant data.
#include "cpu/kernels/kernels.h"
#include "cpu/scratch.h"

#define NIBBLE_NAME_(x) #x
#define NIBBLE_NAME(x)  NIBBLE_NAME_(x)

namespace nibble::cpu::NIBBLE_ISA {

extern const ops::KernelTable kKernels;
const ops::KernelTable kKernels = {
    .name = NIBBLE_NAME(NIBBLE_ISA),
#define NIBBLE_ENTRY(op, Args) .op = op,
    NIBBLE_OPS(NIBBLE_ENTRY)
#undef NIBBLE_ENTRY
        .scratch = &kScratch,
};

}  // namespace nibble::cpu::NIBBLE_ISA
