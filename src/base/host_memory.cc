#include "base/host_memory.h"

#include <fstream>
#include <string>

namespace nibble {

int64_t available_host_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return int64_t{4} << 30;  // a machine that does not say: a laptop's worth
}

}  // namespace nibble
