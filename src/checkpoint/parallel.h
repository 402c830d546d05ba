// A loop over independent, uneven pieces of load-time work (shards), on its own threads.
#pragma once

#include <cstdint>
#include <functional>

namespace nibble::checkpoint {

// Calls body(i) once for each i in [0, count), on as many threads as the machine has; pieces are taken one by one,
// because shards differ in size. If some throw, all others still run and the exception of the lowest i is rethrown, so
// what is reported does not depend on timing.
void for_each_parallel(int64_t count, const std::function<void(int64_t)>& body);

}  // namespace nibble::checkpoint
