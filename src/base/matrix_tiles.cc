#include "base/matrix_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace nibble {

#if defined(__x86_64__) && defined(__linux__)
bool may_use_matrix_tiles() {
  static const bool may = [] {
    constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;  // of cpuid leaf 7, edx
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & kBf16) == 0 || (edx & kTile) == 0) return false;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may;
}
#else
bool may_use_matrix_tiles() { return false; }
#endif

}  // namespace nibble
