#include "eval/record.h"

#include <nlohmann/json.hpp>

#include "eval/answer.h"

namespace nibble::eval {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What parse(line) gives, if writing it again gives the line: so a key too many, a key twice, and blanks are all seen.
template <class T, class Read>
std::optional<T> read_exactly(std::string_view line, const Read& read) {
  const json value = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return std::nullopt;
  try {
    std::optional<T> out = read(value);
    if (to_line(*out) == line) return out;
  } catch (const json::exception&) {  // a key too few, or of another type
  }
  return std::nullopt;
}

}  // namespace

Record make_record(const Problem& problem, std::vector<int32_t> tokens, std::string text, std::string finish_reason) {
  Record out{.id = problem.id,
             .tokens = std::move(tokens),
             .text = std::move(text),
             .answer = {},
             .expected = problem.answer,
             .finish_reason = std::move(finish_reason)};
  out.answer = final_answer(out.text);
  out.right = out.answer == out.expected;
  return out;
}

std::string to_line(const Header& h) {
  return ordered_json{
      {"nibble_eval", 1},
      {"version", h.version},
      {"build", h.build},
      {"model", ordered_json{{"config", h.config}, {"weights", h.weights}}},
      {"options", ordered_json{{"device", h.device},
                               {"precision", h.precision},
                               {"mla", h.mla_form},
                               {"max_tokens", h.max_tokens},
                               {"context", h.context}}},
      {"problems",
       ordered_json{
           {"count", h.problems}, {"ids", h.hashes.ids}, {"prompts", h.hashes.prompts}, {"answers", h.hashes.answers}}}}
      .dump();
}

std::string to_line(const Record& r) {
  ordered_json out = {{"id", json::parse(r.id)}, {"tokens", r.tokens}, {"text", r.text}};
  out["answer"] = r.answer ? ordered_json(*r.answer) : ordered_json(nullptr);
  out["expected"] = r.expected;
  out["right"] = r.right;
  out["finish_reason"] = r.finish_reason;
  return out.dump();
}

std::optional<Header> parse_header(std::string_view line) {
  return read_exactly<Header>(line, [](const json& v) {
    const json &model = v.at("model"), &options = v.at("options"), &problems = v.at("problems");
    return Header{.version = v.at("version"),
                  .build = v.at("build"),
                  .config = model.at("config"),
                  .weights = model.at("weights"),
                  .device = options.at("device"),
                  .precision = options.at("precision"),
                  .mla_form = options.at("mla"),
                  .max_tokens = options.at("max_tokens"),
                  .context = options.at("context"),
                  .problems = problems.at("count"),
                  .hashes = {problems.at("ids"), problems.at("prompts"), problems.at("answers")}};
  });
}

std::optional<Record> parse_record(std::string_view line) {
  return read_exactly<Record>(line, [](const json& v) {
    const json& answer = v.at("answer");
    return Record{.id = v.at("id").dump(-1, ' ', /*ensure_ascii=*/true),
                  .tokens = v.at("tokens"),
                  .text = v.at("text"),
                  .answer = answer.is_null() ? std::nullopt : std::optional(answer.get<std::string>()),
                  .expected = v.at("expected"),
                  .right = v.at("right").get<bool>(),
                  .finish_reason = v.at("finish_reason")};
  });
}

std::string contradiction(const Record& r) {
  if (r.answer != final_answer(r.text)) return "its answer is not the one in its text";
  if (r.right != (r.answer == r.expected)) return "right is not answer == expected";
  if (r.tokens.empty()) return "no tokens";
  if (r.finish_reason != "stop" && r.finish_reason != "length") return "finish_reason " + r.finish_reason;
  return "";
}

Lines split_lines(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) {
      out.torn = text;
      break;
    }
    out.whole.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace nibble::eval
