#include "serve/web_page.h"

#include "serve/web_files.h"

namespace nibble::serve {
namespace {

const WebFile* find(std::string_view path) {
  if (path == "/") path = "/index.html";
  for (const WebFile& file : kWebFiles) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace

bool is_web_file(std::string_view path) { return find(path) != nullptr; }

HttpResponse web_page(std::string_view path) {
  const WebFile& file = *find(path);
  const std::string_view type = file.path.ends_with(".js")    ? "text/javascript"
                                : file.path.ends_with(".css") ? "text/css"
                                                              : "text/html";
  // Nothing from elsewhere, nothing inline: a script that an answer smuggled in would not run.
  return {.content_type = std::string(type) + "; charset=utf-8",
          .body = std::string(file.text),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
                       "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

}  // namespace nibble::serve
