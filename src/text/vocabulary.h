// The ranked byte strings of `tiktoken.model`: id to bytes, bytes to id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::text {

class Vocabulary {
 public:
  // Parses the file's text: one `base64 rank` line a token, ranks 0..size-1 in any order. Refuses, by line, whatever
  // would give other ids than the published tokenizer: see docs/text.md.
  static Vocabulary parse(std::string_view file, int64_t expected_size);

  int64_t size() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t longest() const { return longest_; }  // bytes of the longest token
  std::string_view bytes(int32_t id) const;     // 0 <= id < size()
  int32_t find(std::string_view bytes) const;   // the id, or -1
  int32_t single_byte(uint8_t byte) const { return single_bytes_[byte]; }

 private:
  void index();

  std::string pool_;                 // all tokens, one after the other, by id
  std::vector<uint32_t> starts_{0};  // [size + 1] into pool_
  std::vector<int32_t> slots_;       // open addressing, a power of two; -1 is free
  std::vector<int32_t> single_bytes_;
  int64_t longest_ = 0;
};

}  // namespace nibble::text
