#include "serve/responses_format.h"

#include <fmt/format.h>

#include "text/json_text.h"

namespace nibble::serve {
namespace {

using text::json_quoted;
using Kind = text::ChatEvent::Kind;

enum class Open { kNothing, kReasoning, kMessage, kCall };

class ResponsesFormat final : public Format {
 public:
  ResponsesFormat(std::string model, Json echoed)
      : model_(std::move(model)), echoed_(std::move(echoed)), id_(new_id("resp_")) {}

  void begin(std::string& out) override {
    emit("response.created", {{"response", response("in_progress", {})}}, out);
    emit("response.in_progress", {{"response", response("in_progress", {})}}, out);
  }

  void event(int32_t, const text::ChatEvent& event, std::span<const TokenLogprob>, const Usage&,
             std::string& out) override {
    switch (event.kind) {
      case Kind::kReasoning: return add(Open::kReasoning, event.text, out);
      case Kind::kContent: return add(Open::kMessage, event.text, out);
      case Kind::kCallBegin:
        close(out);
        name_ = event.text;
        return open(Open::kCall, out);
      case Kind::kCallArguments: return add(Open::kCall, event.text, out);
      case Kind::kCallEnd: return;
    }
  }

  void finish(int32_t, const Choice& whole, std::span<const TokenLogprob>, const Usage&, std::string& out) override {
    close(out);
    cut_ = whole.finish_reason == "length";
  }

  void end(const Usage& usage, std::string& out) override {
    emit(cut_ ? "response.incomplete" : "response.completed", {{"response", ended(usage)}}, out);
  }

  void error(const ApiError& error, std::string& out) override {
    emit("error",
         {{"code", error.code.empty() ? Json(error.type) : Json(error.code)},
          {"message", error.message},
          {"param", error.param.empty() ? Json() : Json(error.param)}},
         out);
  }

  std::string whole(std::span<const Choice> choices, const Usage& usage) override {
    const Choice& c = choices.front();
    cut_ = c.finish_reason == "length";
    if (!c.answer.reasoning.empty()) items_.push_back(item(Open::kReasoning, new_id("rs_"), c.answer.reasoning));
    if (!c.answer.content.empty()) items_.push_back(item(Open::kMessage, new_id("msg_"), c.answer.content));
    for (const auto& call : c.answer.calls) {
      name_ = call.name;
      call_id_ = new_id("call_");
      items_.push_back(item(Open::kCall, new_id("fc_"), call.arguments));
    }
    return ended(usage).dump();
  }

 private:
  Json response(const char* status, Json usage) const {
    Json out = {{"id", id_},
                {"object", "response"},
                {"created_at", created_},
                {"status", status},
                {"error", nullptr},
                {"incomplete_details", cut_ ? Json{{"reason", "max_output_tokens"}} : Json()},
                {"model", model_},
                {"output", items_},
                {"previous_response_id", nullptr},
                {"store", false},
                {"truncation", "disabled"},
                {"usage", std::move(usage)}};
    out.update(echoed_);
    return out;
  }

  Json ended(const Usage& u) const {
    return response(cut_ ? "incomplete" : "completed", {{"input_tokens", u.prompt},
                                                        {"input_tokens_details", {{"cached_tokens", u.cached}}},
                                                        {"output_tokens", u.completion},
                                                        {"output_tokens_details", {{"reasoning_tokens", u.reasoning}}},
                                                        {"total_tokens", u.prompt + u.completion}});
  }

  static Json part(Open kind, const std::string& text) {
    if (kind == Open::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }

  Json item(Open kind, const std::string& id, const std::string& text, bool begun = false) const {
    const char* status = begun ? "in_progress" : "completed";
    if (kind == Open::kCall) {
      return {{"type", "function_call"}, {"id", id},          {"call_id", call_id_},
              {"name", name_},           {"arguments", text}, {"status", status}};
    }
    Json content = Json::array();
    if (!begun) content.push_back(part(kind, text));
    if (kind == Open::kReasoning) {
      return {{"type", "reasoning"}, {"id", id}, {"summary", Json::array()}, {"content", content}};
    }
    return {{"type", "message"}, {"id", id}, {"status", status}, {"role", "assistant"}, {"content", content}};
  }

  void open(Open kind, std::string& out) {
    open_ = kind;
    text_.clear();
    item_id_ = new_id(kind == Open::kReasoning ? "rs_" : kind == Open::kMessage ? "msg_" : "fc_");
    if (kind == Open::kCall) call_id_ = new_id("call_");
    emit("response.output_item.added", {{"output_index", items_.size()}, {"item", item(kind, item_id_, "", true)}},
         out);
    if (kind != Open::kCall) emit("response.content_part.added", at({{"part", part(kind, "")}}), out);
  }

  void add(Open kind, const std::string& text, std::string& out) {
    if (open_ != kind) {
      close(out);
      open(kind, out);
    }
    text_ += text;
    const char* type = kind == Open::kReasoning ? "response.reasoning_text.delta"
                       : kind == Open::kMessage ? "response.output_text.delta"
                                                : "response.function_call_arguments.delta";
    out += fmt::format(
        "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},\"item_id\":\"{2}\","
        "\"output_index\":{3},{4}\"delta\":{5}}}\n\n",
        type, sequence_++, item_id_, items_.size(),
        kind == Open::kCall      ? ""
        : kind == Open::kMessage ? "\"content_index\":0,\"logprobs\":[],"
                                 : "\"content_index\":0,",
        json_quoted(text));
  }

  void close(std::string& out) {
    const Open kind = std::exchange(open_, Open::kNothing);
    if (kind == Open::kNothing) return;
    if (kind == Open::kCall) {
      emit("response.function_call_arguments.done",
           {{"item_id", item_id_}, {"output_index", items_.size()}, {"name", name_}, {"arguments", text_}}, out);
    } else {
      Json done = {{"text", text_}};
      if (kind == Open::kMessage) done["logprobs"] = Json::array();
      emit(kind == Open::kReasoning ? "response.reasoning_text.done" : "response.output_text.done", at(done), out);
      emit("response.content_part.done", at({{"part", part(kind, text_)}}), out);
    }
    items_.push_back(item(kind, item_id_, text_));
    emit("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", items_.back()}}, out);
  }

  // Where in the response something happens.
  Json at(const Json& more) const {
    Json out = {{"item_id", item_id_}, {"output_index", items_.size()}, {"content_index", 0}};
    out.update(more);
    return out;
  }

  void emit(const char* type, const Json& data, std::string& out) {
    Json event = {{"type", type}, {"sequence_number", sequence_++}};
    event.update(data);
    out += fmt::format("event: {}\ndata: {}\n\n", type, event.dump());
  }

  std::string model_;
  Json echoed_, items_ = Json::array();
  std::string id_, item_id_, text_, name_, call_id_;
  int64_t created_ = unix_time(), sequence_ = 0;
  Open open_ = Open::kNothing;
  bool cut_ = false;
};

}  // namespace

std::unique_ptr<Format> make_responses_format(std::string model, Json echoed) {
  return std::make_unique<ResponsesFormat>(std::move(model), std::move(echoed));
}

}  // namespace nibble::serve
