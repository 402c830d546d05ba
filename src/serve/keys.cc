#include "serve/keys.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

namespace nibble::serve {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest digest(std::string_view text) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return out;
}

}  // namespace

bool is_one_of(std::string_view key, const std::vector<std::string>& keys) {
  const Digest given = digest(key);
  int found = 0;
  for (const std::string& one : keys) {
    const Digest known = digest(one);
    found |= CRYPTO_memcmp(given.data(), known.data(), given.size()) == 0 ? 1 : 0;
  }
  return found != 0 && !key.empty();
}

bool names_an_address(std::string_view host) {
  std::string name(host);
  if (name.starts_with('[')) {  // [::1]:8000
    name = name.substr(1, name.find(']') - 1);
  } else {
    name = name.substr(0, name.find(':'));
  }
  in6_addr ignored;
  return name.empty() || name == "localhost" || name.ends_with(".localhost") ||
         inet_pton(AF_INET, name.c_str(), &ignored) == 1 || inet_pton(AF_INET6, name.c_str(), &ignored) == 1;
}

std::string printable(std::string_view bytes) {
  std::string out(bytes);
  for (char& c : out) c = c >= 0x20 && c < 0x7F ? c : '?';
  return out;
}

}  // namespace nibble::serve
