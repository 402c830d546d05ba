// Who may call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::serve {

// Takes as long for a wrong key as for a right one: what is compared are digests, all bytes of all keys.
bool is_one_of(std::string_view key, const std::vector<std::string>& keys);

// True for "127.0.0.1:8000", "[::1]", "localhost" and what else has no name that somebody else could point at us: a
// page of another site cannot reach a server on loopback through a name of its own (DNS rebinding).
bool names_an_address(std::string_view host);

// Bytes of a client, fit for a log: what is not printable ASCII becomes '?'.
std::string printable(std::string_view bytes);

}  // namespace nibble::serve
