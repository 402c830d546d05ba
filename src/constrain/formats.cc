#include "constrain/formats.h"

#include <map>
#include <string>

namespace nibble::constrain {
namespace {

// That many of a part.
std::string times(const std::string& part, int least, int most) {
  return "(?:" + part + "){" + std::to_string(least) + "," + std::to_string(most) + "}";
}

// As many groups as there is room for before a ::, and behind it.
std::string ipv6() {
  const std::string h16 = "[0-9A-Fa-f]{1,4}";
  std::string out =
      times(h16 + ":", 7, 7) + h16 + "|" + times(h16 + ":", 1, 7) + ":|:" + times(":" + h16, 1, 7) + "|::";
  for (int before = 1; before <= 6; ++before)
    out += "|" + times(h16 + ":", before, before) + times(":" + h16, 1, 7 - before);
  return out;
}

// RFC 3339, appendix A: units descend, and none is left out between two.
std::string duration() {
  const std::string n = "[0-9]{1,9}", second = n + "S", minute = n + "M(?:" + second + ")?",
                    hour = n + "H(?:" + minute + ")?", time = "T(?:" + hour + "|" + minute + "|" + second + ")",
                    day = n + "D", month = n + "M(?:" + day + ")?", year = n + "Y(?:" + month + ")?";
  return "P(?:(?:" + day + "|" + month + "|" + year + ")(?:" + time + ")?|" + time + "|" + n + "W)";
}

std::map<std::string_view, std::string> make_formats() {
  // Days that there are, with the leap years of the Gregorian calendar (RFC 3339, appendix C).
  const std::string date =
      "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
      "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-"
      "02-29)";
  const std::string hour = "(?:[01][0-9]|2[0-3])", sixty = "[0-5][0-9]";
  const std::string time = hour + ":" + sixty + ":" + sixty + "(?:\\.[0-9]{1,9})?(?:Z|[+-]" + hour + ":" + sixty + ")";
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", hostname = label + "(?:\\." + label + ")*";
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  return {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", duration()},
      {"email", atom + "(?:\\." + atom + ")*@" + hostname},
      {"hostname", hostname},
      {"ipv4", byte + "(?:\\." + byte + "){3}"},
      {"ipv6", ipv6()},
      {"uuid", "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+"},
  };
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view name) {
  static const std::map<std::string_view, std::string> formats = make_formats();
  const auto it = formats.find(name);
  return it == formats.end() ? std::nullopt : std::optional<std::string_view>(it->second);
}

const char* format_names() { return "date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri"; }

}  // namespace nibble::constrain
