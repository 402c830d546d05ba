#include "backend/device_name.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace nibble::backend {

DeviceName parse_device(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon), index = colon == name.npos ? "" : name.substr(colon + 1);
  const bool number = !index.empty() && index.size() <= 3 &&
                      std::all_of(index.begin(), index.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (colon == name.npos && (kind == "cpu" || kind == "cuda" || kind == "auto")) return {kind, 0};
  if (kind == "cuda" && number) return {kind, std::stoi(index)};
  throw Refusal({.what = "device " + name,
                 .seen = "\"" + name + "\"",
                 .rule = "a device is cpu, cuda (the first), cuda:N (counted from 0), or auto for the best there is",
                 .fix = kind == "cuda" ? "device cuda:0" : "device auto"});
}

}  // namespace nibble::backend
