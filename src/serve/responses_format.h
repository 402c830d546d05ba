// How an answer of /v1/responses looks: items, and a stream of events about them.
#pragma once

#include <memory>
#include <string>

#include "serve/fields.h"
#include "serve/format.h"

namespace nibble::serve {

// `echoed`: members of the response that repeat the request.
std::unique_ptr<Format> make_responses_format(std::string model, Json echoed);

}  // namespace nibble::serve
