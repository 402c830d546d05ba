#include "text/json_text.h"

#include <cstdint>
#include <unordered_map>

#include "text/utf8.h"

namespace nibble::text {
namespace {

// Walks a value; every function returns false at the first character that strict JSON does not allow.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}
  size_t at() const { return at_; }
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }
  bool value(int64_t depth = 1);
  bool string();
  std::string_view from(size_t begin) const { return text_.substr(begin, at_ - begin); }

 private:
  bool word(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  bool digits() {
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ != begin;
  }
  bool number();
  bool escape();
  bool hex4(uint32_t& unit);
  bool list(char close, bool keyed, int64_t depth);

  std::string_view text_;
  size_t at_ = 0;
};

bool Walker::number() {
  take('-');
  if (!take('0') && !digits()) return false;
  if (take('.') && !digits()) return false;
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    return digits();
  }
  return true;
}

bool Walker::hex4(uint32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = peek();
    const bool digit = c >= '0' && c <= '9', low = c >= 'a' && c <= 'f', high = c >= 'A' && c <= 'F';
    if (!digit && !low && !high) return false;
    unit = unit << 4 | static_cast<uint32_t>(digit ? c - '0' : (c | 32) - 'a' + 10);
    ++at_;
  }
  return true;
}

// A surrogate must come as a pair: half of one is not a character, and could not be encoded.
bool Walker::escape() {
  if (std::string_view("\"\\/bfnrt").find(peek()) != std::string_view::npos && !at_end()) return ++at_, true;
  uint32_t unit = 0, second = 0;
  if (!take('u') || !hex4(unit)) return false;
  if (unit >= 0xDC00 && unit < 0xE000) return false;
  if (unit < 0xD800 || unit >= 0xE000) return true;
  return take('\\') && take('u') && hex4(second) && second >= 0xDC00 && second < 0xE000;
}

bool Walker::string() {
  if (!take('"')) return false;
  while (!at_end()) {
    if (take('"')) return true;
    if (take('\\')) {
      if (!escape()) return false;
      continue;
    }
    const Utf8Char c = decode_utf8(text_.substr(at_));
    if (c.status != Utf8Status::kWhole || c.code_point < 0x20) return false;
    at_ += c.length;
  }
  return false;
}

bool Walker::list(char close, bool keyed, int64_t depth) {
  if (depth > kMaxJsonDepth) return false;
  ++at_;
  skip_space();
  if (take(close)) return true;
  while (true) {
    if (keyed) {
      skip_space();
      if (!string()) return false;
      skip_space();
      if (!take(':')) return false;
    }
    if (!value(depth + 1)) return false;
    skip_space();
    if (take(close)) return true;
    if (!take(',')) return false;
  }
}

bool Walker::value(int64_t depth) {
  skip_space();
  switch (peek()) {
    case '{': return list('}', true, depth);
    case '[': return list(']', false, depth);
    case '"': return string();
    case 't': return word("true");
    case 'f': return word("false");
    case 'n': return word("null");
    default: return number();
  }
}

const char* type_of(std::string_view literal) {
  switch (literal[0]) {
    case '{': return "object";
    case '[': return "array";
    case '"': return "string";
    case 't':
    case 'f': return "boolean";
    case 'n': return "null";
    default: return "number";
  }
}

uint32_t parse_hex4(std::string_view digits) {
  uint32_t unit = 0;
  for (const char c : digits.substr(0, 4))
    unit = unit << 4 | static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  return unit;
}

}  // namespace

std::optional<std::string_view> json_literal(std::string_view text) {
  Walker walker(text);
  walker.skip_space();
  const size_t begin = walker.at();
  if (!walker.value()) return std::nullopt;
  return walker.from(begin);
}

bool is_json(std::string_view text) {
  Walker walker(text);
  if (!walker.value()) return false;
  walker.skip_space();
  return walker.at_end();
}

std::optional<std::vector<JsonMember>> json_members(std::string_view text) {
  const std::optional<std::string_view> object = json_literal(text);
  if (!object || (*object)[0] != '{') return std::nullopt;
  std::vector<JsonMember> members;
  std::unordered_map<std::string, size_t> place;
  Walker walker(*object);
  walker.take('{');
  walker.skip_space();
  while (!walker.take('}')) {
    walker.take(',');
    walker.skip_space();
    const size_t key = walker.at();
    walker.string();
    std::string name = json_decode_string(walker.from(key));
    walker.skip_space();
    walker.take(':');
    walker.skip_space();
    const size_t begin = walker.at();
    walker.value();
    const std::string_view literal = walker.from(begin);
    const auto [known, fresh] = place.emplace(name, members.size());
    if (fresh) members.emplace_back();
    members[known->second] = {std::move(name), literal, type_of(literal)};
    walker.skip_space();
  }
  return members;
}

std::string json_decode_string(std::string_view literal) {
  std::string out;
  for (size_t i = 1; i + 1 < literal.size(); ++i) {
    if (literal[i] != '\\') {
      out.push_back(literal[i]);
      continue;
    }
    const char c = literal[++i];
    static constexpr std::string_view kFrom = "bfnrt", kTo = "\b\f\n\r\t";
    if (c == 'u') {
      char32_t code_point = parse_hex4(literal.substr(i + 1));
      i += 4;
      if (code_point >= 0xD800 && code_point < 0xDC00) {
        code_point = 0x10000 + ((code_point - 0xD800) << 10) + (parse_hex4(literal.substr(i + 3)) - 0xDC00);
        i += 6;
      }
      append_utf8(code_point, out);
    } else {
      const size_t control = kFrom.find(c);
      out.push_back(control == kFrom.npos ? c : kTo[control]);
    }
  }
  return out;
}

void append_json_escaped(std::string_view text, std::string& out) {
  static constexpr std::string_view kHex = "0123456789abcdef", kFrom = "\"\\\b\f\n\r\t", kTo = "\"\\bfnrt";
  for (const char c : text) {
    const size_t named = kFrom.find(c);
    if (named != kFrom.npos) {
      out.push_back('\\');
      out.push_back(kTo[named]);
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += "\\u00";
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
    } else {
      out.push_back(c);
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(text, out);
  out.push_back('"');
  return out;
}

}  // namespace nibble::text
