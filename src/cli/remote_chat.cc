// A chat with a server: OpenAI's API over libcurl, answers as streams.
#include <curl/curl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/chat_model.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/writer.h"
#include "text/utf8.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;
using Kind = text::ChatEvent::Kind;

constexpr size_t kLongestError = 64 << 10;

std::string endpoint(std::string url) {
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    throw Refusal({.what = "--url " + url,
                   .seen = shortened(url),
                   .rule = "a server is named by a URL with http:// or https://",
                   .fix = "--url http://127.0.0.1:8000"});
  }
  while (url.ends_with('/')) url.pop_back();
  return url + (url.ends_with("/v1") ? "" : "/v1") + "/chat/completions";
}

void check_utf8(const std::string& line) {
  if (text::valid_utf8_prefix(line) == static_cast<int64_t>(line.size())) return;
  throw Refusal({.what = "the line",
                 .seen = "bytes that are no UTF-8",
                 .rule = "a chat is text in UTF-8",
                 .fix = "type it again"});
}

Json body_of(const std::vector<text::Message>& messages, const Remote& remote, const ChatOptions& chat,
             const Request& request) {
  Json body = {{"stream", true}};
  if (!remote.model.empty()) body["model"] = remote.model;
  Json& list = body["messages"] = Json::array();
  for (const text::Message& m : messages) {
    for (const std::string& part : m.content) check_utf8(part);
    Json message = {{"role", m.role == text::Role::kSystem      ? "system"
                             : m.role == text::Role::kAssistant ? "assistant"
                                                                : "user"},
                    {"content", m.content.empty() ? "" : m.content.front()}};
    if (m.role == text::Role::kAssistant) message["reasoning_content"] = m.reasoning;
    list.push_back(std::move(message));
  }
  const SamplingParams &s = request.sampling, otherwise;
  body["temperature"] = s.temperature;
  body["top_p"] = s.top_p;
  // What not every server knows is sent only where it says something.
  if (s.top_k != otherwise.top_k) body["top_k"] = s.top_k;
  if (s.min_p != otherwise.min_p) body["min_p"] = s.min_p;
  if (s.repetition_penalty != otherwise.repetition_penalty) body["repetition_penalty"] = s.repetition_penalty;
  if (s.presence_penalty != otherwise.presence_penalty) body["presence_penalty"] = s.presence_penalty;
  if (s.frequency_penalty != otherwise.frequency_penalty) body["frequency_penalty"] = s.frequency_penalty;
  if (s.seed) body["seed"] = static_cast<int64_t>(*s.seed);
  for (const auto& [id, value] : s.logit_bias) body["logit_bias"][std::to_string(id)] = std::max(value, -100.0f);
  if (request.max_tokens > 0) body["max_tokens"] = request.max_tokens;
  if (!chat.effort.empty()) body["reasoning_effort"] = chat.effort;
  if (chat.no_thinking) body["chat_template_kwargs"] = {{"thinking", false}};
  return body;
}

// Server-sent events in, the answer out.
class Reading {
 public:
  void take(std::string_view bytes) {
    buffer_ += bytes;
    for (size_t end = 0; (end = buffer_.find('\n')) != buffer_.npos; buffer_.erase(0, end + 1)) {
      std::string_view line = std::string_view(buffer_).substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("data:")) event(line.substr(line.find_first_not_of(' ', 5)));
    }
  }
  void finish() { writer_.finish(); }

  text::Message message{.role = text::Role::kAssistant, .content = {""}};
  bool any = false;
  std::string failure;

 private:
  void event(std::string_view data) {
    const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return;  // [DONE]
    if (json.contains("error")) failure = error_of(json);
    const Json choices = json.value("choices", Json::array());
    if (!choices.is_array() || choices.empty() || !choices[0].is_object()) return;
    const Json delta = choices[0].value("delta", Json::object());
    const auto text = [&](const char* name) {
      const auto found = delta.find(name);
      return found != delta.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    std::string reasoning = text("reasoning_content");
    if (reasoning.empty()) reasoning = text("reasoning");
    show(Kind::kReasoning, reasoning, message.reasoning);
    show(Kind::kContent, text("content"), message.content.front());
  }

  void show(Kind kind, const std::string& text, std::string& to) {
    if (text.empty()) return;
    any = true;
    to += text;
    writer_.write({{.kind = kind, .text = text}});
  }

 public:
  static std::string error_of(const Json& json) {
    const auto error = json.find("error");
    if (error == json.end()) return {};
    return error->is_object() ? error->value("message", error->dump()) : error->dump();
  }

 private:
  std::string buffer_;
  AnswerWriter writer_;
};

class Server final : public ChatModel {
 public:
  Server(Remote remote, const ChatOptions& chat, const Request& request)
      : remote_(std::move(remote)), endpoint_(endpoint(remote_.url)), chat_(chat), request_(request) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
  }
  std::string name() const override { return remote_.url; }

  std::optional<text::Message> answer(const std::vector<text::Message>& messages, InterruptGuard& interrupt) override {
    const std::string body = body_of(messages, remote_, chat_, request_).dump();
    Reading reading;
    Transfer transfer{.reading = &reading};
    curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
    if (!remote_.key.empty()) headers = curl_slist_append(headers, ("Authorization: Bearer " + remote_.key).c_str());
    transfer.easy = curl_easy_init();
    curl_easy_setopt(transfer.easy, CURLOPT_URL, endpoint_.c_str());
    curl_easy_setopt(transfer.easy, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(transfer.easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(transfer.easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(transfer.easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(transfer.easy, CURLOPT_WRITEFUNCTION, &Transfer::write);
    curl_easy_setopt(transfer.easy, CURLOPT_WRITEDATA, &transfer);
    interrupt.take();
    const bool stopped = run(transfer, interrupt);
    curl_easy_cleanup(transfer.easy);
    curl_slist_free_all(headers);
    reading.finish();
    if (reading.any) print("\n");
    if (stopped) note("stopped");
    if (transfer.thrown) std::rethrow_exception(transfer.thrown);
    if (transfer.status != 0 && transfer.status != 200) {
      const std::string said = Reading::error_of(Json::parse(transfer.error, nullptr, false));
      reading.failure = said.empty() ? fmt::format("the server answered {}", transfer.status) : said;
    } else if (transfer.result != CURLE_OK && !stopped) {
      reading.failure = fmt::format("{}: {}", remote_.url, curl_easy_strerror(transfer.result));
    }
    if (!reading.failure.empty()) note(reading.failure);
    if (!reading.any) return {};
    return reading.message;
  }

 private:
  struct Transfer {
    Reading* reading;
    CURL* easy = nullptr;
    long status = 0;
    std::string error;  // the body of an answer that is none
    CURLcode result = CURLE_OK;
    std::exception_ptr thrown;  // by our standard output

    static size_t write(char* data, size_t, size_t size, void* self) {
      auto& transfer = *static_cast<Transfer*>(self);
      try {
        curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &transfer.status);
        if (transfer.status == 200) {
          transfer.reading->take({data, size});
        } else if (transfer.error.size() < kLongestError) {
          transfer.error.append(data, size);
        }
        return size;
      } catch (...) {  // not through C
        transfer.thrown = std::current_exception();
        return 0;
      }
    }
  };

  // True where Ctrl-C ended it.
  static bool run(Transfer& transfer, InterruptGuard& interrupt) {
    constexpr int kMilliseconds = 60'000;
    CURLM* multi = curl_multi_init();
    curl_multi_add_handle(multi, transfer.easy);
    bool stopped = false;
    for (int running = 1; running > 0 && !stopped;) {
      curl_multi_perform(multi, &running);
      curl_waitfd key{.fd = interrupt.descriptor(), .events = CURL_WAIT_POLLIN, .revents = 0};
      if (running > 0) curl_multi_poll(multi, &key, 1, kMilliseconds, nullptr);
      stopped = interrupt.take();
    }
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg == CURLMSG_DONE) transfer.result = message->data.result;
    }
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &transfer.status);
    curl_multi_remove_handle(multi, transfer.easy);
    curl_multi_cleanup(multi);
    return stopped;
  }

  Remote remote_;
  std::string endpoint_;
  const ChatOptions& chat_;
  const Request& request_;
};

}  // namespace

std::unique_ptr<ChatModel> connect_chat_model(const Remote& remote, const ChatOptions& chat, const Request& request) {
  return std::make_unique<Server>(remote, chat, request);
}

}  // namespace nibble::cli
