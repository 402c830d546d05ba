// The page at /: files of web/, built into the program.
#pragma once

#include <string_view>

#include "serve/http.h"

namespace nibble::serve {

// "/", or "/" and the name of a file of web/.
bool is_web_file(std::string_view path);
HttpResponse web_page(std::string_view path);  // of such a path

}  // namespace nibble::serve
