// A stream between the engine and its connection: what is ready at once goes out at once, and in one piece.
#include "serve/generation.h"

#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Writes final : public HttpReply {
 public:
  void send(HttpResponse) override {}
  void begin(int, std::string, Headers) override {}
  void write(std::string_view bytes) override { pieces.emplace_back(bytes); }
  void end() override { ended = true; }
  void on_gone(std::function<void(std::string_view)>) override {}

  std::vector<std::string> pieces;
  bool ended = false;
};

class GenerationTest : public ScriptedServer {
 protected:
  struct Stream {
    std::shared_ptr<Writes> writes = std::make_shared<Writes>();
    std::shared_ptr<Generation> generation;
  };
  Stream begin() {
    const Json json = Json::parse(chat(R"("stream":true)"));
    Stream out;
    out.generation =
        std::make_shared<Generation>(prepare_chat(json, knows_), tokenizer(), generator_, metrics_, out.writes,
                                     Headers(), Dialect::kOpenAi, [](Generation&, const Outcome&) {});
    out.generation->submit(inbox_);
    out.generation->begin();
    out.writes->pieces.clear();  // the role
    return out;
  }
  // What the server's thread does once it gets to it.
  void catch_up() {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }

  Knowledge knows_{.tokenizer = tokenizer(), .context = 4096, .model_names = {"k3-tiny"}, .render = {}, .sampling = {}};
  Metrics metrics_{"k3-tiny"};
  std::vector<std::function<void()>> tasks_;
  std::shared_ptr<Inbox> inbox_ =
      std::make_shared<Inbox>([this](std::function<void()> task) { tasks_.push_back(std::move(task)); });
};

TEST_F(GenerationTest, OneWriteForWhatIsReady) {
  const Stream first = begin(), second = begin();
  const std::vector<int32_t> word = ids("hm");
  for (int i = 0; i < 3; ++i) {
    generator_.give(1, word);
    generator_.give(2, word);
  }
  EXPECT_TRUE(first.writes->pieces.empty());
  catch_up();
  for (const Stream& stream : {first, second}) {
    ASSERT_EQ(stream.writes->pieces.size(), 1u);
    const std::string& events = stream.writes->pieces[0];
    size_t count = 0;
    for (size_t at = 0; (at = events.find("data: ", at)) != events.npos; ++at) ++count;
    EXPECT_EQ(count, 3 * word.size());
  }
  generator_.give(1, word);
  catch_up();
  EXPECT_EQ(first.writes->pieces.size(), 2u);  // nothing was held back for it to come
  EXPECT_EQ(second.writes->pieces.size(), 1u);
  generator_.give(1, word);
  generator_.give(1, {}, FinishReason::kStop);
  catch_up();
  EXPECT_TRUE(first.writes->ended);
  EXPECT_TRUE(first.writes->pieces.back().ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace nibble::serve
