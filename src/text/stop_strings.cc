#include "text/stop_strings.h"

#include <algorithm>

namespace nibble::text {

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& text : stops) {
    if (text.empty()) continue;
    longest = std::max(longest, text.size());
    Stop stop{text, std::vector<int32_t>(text.size() + 1, 0), 0};
    int32_t length = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (length > 0 && text[length] != text[i]) length = stop.fallback[length];
      if (text[length] == text[i]) ++length;
      stop.fallback[i + 1] = length;
    }
    stops_.push_back(std::move(stop));
  }
  held_.reserve(longest + 1);  // so that push does not allocate for itself
}

void StopStrings::push(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (matched_) return;
    held_ += c;
    int32_t waiting = 0;
    const Stop* match = nullptr;
    for (Stop& stop : stops_) {
      while (stop.length > 0 && stop.text[stop.length] != c) stop.length = stop.fallback[stop.length];
      if (stop.text[stop.length] == c) ++stop.length;
      waiting = std::max(waiting, stop.length);
      if (stop.length != static_cast<int32_t>(stop.text.size())) continue;
      if (!match || stop.text.size() > match->text.size()) match = &stop;
    }
    const size_t keep = match ? match->text.size() : static_cast<size_t>(waiting);
    out.append(held_, 0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    if (match) matched_ = match->text;
  }
}

void StopStrings::finish(std::string& out) {
  if (!matched_) out += held_;
  held_.clear();
}

}  // namespace nibble::text
