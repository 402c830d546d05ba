#include "cli/chat_model.h"

#include <fmt/format.h>

#include "cli/answer.h"
#include "cli/figures.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/writer.h"

namespace nibble::cli {

void note(std::string_view text) { fmt::print(stderr, "nibble: {}\n", text); }

namespace {

class LoadedModel final : public ChatModel {
 public:
  LoadedModel(const ModelOptions& options, const EngineOptions& engine, text::RenderOptions render,
              const Request& request)
      : options_(options), request_(request), render_(std::move(render)), session_(engine) {}

  std::string name() const override {
    return fmt::format("{}, {} tokens of context", options_.model, session_.context());
  }

  std::optional<text::Message> answer(const std::vector<text::Message>& messages, InterruptGuard& interrupt) override {
    const text::Prompt rendered = text::render(messages, render_);
    Request request = request_;
    request.prompt = text::encode(rendered.segments, session_.tokenizer());
    const auto size = static_cast<int64_t>(request.prompt.size());
    if (size >= session_.context()) {
      note(fmt::format(
          "the context is full: the conversation has {} tokens with this line, of {}; /clear starts a new one", size,
          session_.context()));
      return {};
    }
    Figures figures(size);
    text::ChatReader reader(session_.tokenizer(), rendered.channel, {});
    AnswerWriter writer;
    std::vector<int32_t> tokens;
    interrupt.take();  // one that came between the line and here meant the line
    const FinishReason finish = session_.run(
        std::move(request),
        [&](const Output& output) {
          figures.add(static_cast<int64_t>(output.tokens.size()));
          tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
          writer.write(reader.push(output.tokens));
          return true;
        },
        [&] { return interrupt.take(); });
    writer.write(reader.finish());
    writer.finish();
    print("\n");
    if (finish == FinishReason::kCancelled) note("stopped");
    if (finish == FinishReason::kLength && size + static_cast<int64_t>(tokens.size()) >= session_.context()) {
      note(fmt::format("the context of {} tokens is full; /clear starts a new conversation", session_.context()));
    }
    if (options_.verbose) note(figures.line());
    if (tokens.empty()) return {};
    text::ChatAnswer answer = reader.answer();
    return text::Message{.role = text::Role::kAssistant,
                         .content = {std::move(answer.content)},
                         .reasoning = std::move(answer.reasoning)};
  }

 private:
  const ModelOptions& options_;
  const Request& request_;
  text::RenderOptions render_;
  Session session_;
};

}  // namespace

std::unique_ptr<ChatModel> load_chat_model(const ModelOptions& model, const ChatOptions& chat, const Request& request) {
  EngineOptions engine = engine_options(model);
  text::RenderOptions render = render_options(chat, engine.model);
  ProgressBar bar;
  engine.progress = [&bar](std::string_view phase, int done, int total) { bar.update(phase, done, total); };
  return std::make_unique<LoadedModel>(model, engine, std::move(render), request);
}

}  // namespace nibble::cli
