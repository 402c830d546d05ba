#include "serve/prepared.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "text/chat_json.h"

namespace nibble::serve {
namespace {

constexpr int64_t kMaxChoices = 64, kMaxStops = 16, kMaxBiases = 1024;

std::vector<std::pair<int32_t, float>> read_bias(const Fields& fields, int64_t vocabulary) {
  std::vector<std::pair<int32_t, float>> out;
  const Json* bias = fields.find("logit_bias");
  if (!bias) return out;
  if (!bias->is_object() || static_cast<int64_t>(bias->size()) > kMaxBiases) {
    fields.refuse("logit_bias", fmt::format("it is an object of at most {} token ids", kMaxBiases));
  }
  for (const auto& [key, value] : bias->items()) {
    int32_t id = -1;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool known = read.ec == std::errc() && read.ptr == key.data() + key.size() && id >= 0 && id < vocabulary;
    if (!known || !value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      fields.refuse("logit_bias", fmt::format("it maps ids from 0 to {} to numbers from -100 to 100", vocabulary - 1));
    }
    out.emplace_back(id, value.get<float>());
  }
  return out;
}

void read_sampling(const Fields& fields, SamplingParams& s, int64_t vocabulary) {
  const auto real = [&](const char* name, double low, double high, float& to) {
    if (const auto value = fields.number(name, low, high)) to = static_cast<float>(*value);
  };
  real("temperature", 0, 2, s.temperature);
  real("top_p", 0, 1, s.top_p);
  real("min_p", 0, 1, s.min_p);
  real("frequency_penalty", -2, 2, s.frequency_penalty);
  real("presence_penalty", -2, 2, s.presence_penalty);
  real("repetition_penalty", 0.001, 1000, s.repetition_penalty);
  if (const auto k = fields.integer("top_k", -1, std::numeric_limits<int32_t>::max())) {
    s.top_k = static_cast<int32_t>(std::max<int64_t>(*k, 0));  // -1 is vLLM's word for all
  }
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min())) {
    s.seed = static_cast<uint64_t>(*seed);
  }
  if (fields.has("logit_bias")) s.logit_bias = read_bias(fields, vocabulary);
}

// What is asked for in a way that would change the answer, and is not there, is refused rather than ignored.
void refuse_unsupported(const Fields& fields, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const Json* value = fields.find(name);
    if (value && !(value->is_string() && value->get_ref<const std::string&>().empty())) {
      throw RequestError({.status = 400,
                          .message = fmt::format("{} is not supported by this server", name),
                          .param = name,
                          .code = "unsupported_value"});
    }
  }
}

// One of these texts: their alternatives as a regular expression.
std::string alternatives(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) {
    if (!out.empty()) out += '|';
    for (const char c : text) {
      if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

// Under `json`, `regex`, `choice`, or the same with a prefix.
void read_constraint(const Fields& fields, const std::string& prefix, std::vector<Constraint>& out) {
  const auto name = [&](const char* rest) { return prefix + rest; };
  if (const Json* schema = fields.find(name("json").c_str())) {
    out.push_back({.kind = Constraint::Kind::kJsonSchema,
                   .text = schema->is_string() ? schema->get<std::string>() : schema->dump()});
  }
  if (fields.has(name("regex").c_str())) {
    out.push_back({.kind = Constraint::Kind::kRegex, .text = fields.string(name("regex").c_str())});
  }
  if (fields.has(name("choice").c_str())) {
    out.push_back({.kind = Constraint::Kind::kRegex, .text = alternatives(fields.strings(name("choice").c_str()))});
  }
}

Constraint read_constraint(const Fields& fields) {
  std::vector<Constraint> found;
  read_constraint(fields, "guided_", found);
  if (const auto outputs = fields.object("structured_outputs")) {
    read_constraint(*outputs, "", found);
    if (outputs->boolean("json_object", false)) found.push_back({.kind = Constraint::Kind::kJson, .text = {}});
    refuse_unsupported(*outputs, {"grammar", "structural_tag"});
  }
  if (const Json* schema = fields.find("json_schema")) {
    found.push_back({.kind = Constraint::Kind::kJsonSchema, .text = schema->dump()});
  }
  if (found.size() > 1) {
    throw RequestError(
        invalid("an answer can be held to one constraint; the request has several", "structured_outputs"));
  }
  return found.empty() ? Constraint() : found.front();
}

}  // namespace

std::string model_name(const Fields& fields, const Knowledge& knows) {
  const std::string name = fields.string("model");
  if (name.empty()) return knows.model_names.front();
  const auto& names = knows.model_names;
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  ApiError error = not_found(
      fmt::format("the model {} does not exist here; this server has {}", Json(name).dump(), fmt::join(names, ", ")),
      "model_not_found");
  error.param = "model";
  throw RequestError(std::move(error));
}

Request read_request(const Fields& fields, const Knowledge& knows) {
  refuse_unsupported(fields, {"guided_grammar", "grammar", "bad_words", "suffix"});
  Request r;
  r.constraint = read_constraint(fields);
  const int64_t vocabulary = knows.tokenizer.vocab_size();
  r.sampling = knows.sampling;
  read_sampling(fields, r.sampling, vocabulary);
  r.max_tokens = knows.max_tokens;
  if (const auto most = fields.integer("max_tokens", 1)) r.max_tokens = *most;
  if (const auto most = fields.integer("max_completion_tokens", 1)) r.max_tokens = *most;
  r.min_tokens = fields.integer("min_tokens", 0).value_or(0);
  if (r.max_tokens > 0 && r.min_tokens > r.max_tokens) fields.refuse("min_tokens", "it is at most max_tokens");
  r.ignore_eos = fields.boolean("ignore_eos", false);
  r.stop_ids = fields.ids("stop_token_ids");
  r.choices = static_cast<int32_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
  return r;
}

std::vector<std::string> read_stops(const Fields& fields) {
  std::vector<std::string> stops = fields.strings("stop");
  std::erase(stops, "");  // some clients mean none by it
  if (static_cast<int64_t>(stops.size()) > kMaxStops) {
    fields.refuse("stop", fmt::format("it has at most {} strings", kMaxStops));
  }
  return stops;
}

void check_length(const std::vector<int32_t>& prompt, const Knowledge& knows, const char* param) {
  const auto size = static_cast<int64_t>(prompt.size());
  if (size == 0) throw RequestError(invalid("the prompt has no tokens; an answer continues something", param));
  if (size < knows.context) return;
  throw RequestError(invalid(
      fmt::format(
          "the maximum context length is {} tokens; the prompt has {}, and an answer needs room for one at least",
          knows.context, size),
      param, "context_length_exceeded"));
}

}  // namespace nibble::serve
