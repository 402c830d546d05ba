// A stream between the engine and its connection: what is ready at once goes out at once, and in one piece.
#include "serve/generation.h"

#include "serve/scripted_server.h"

namespace nibble::serve {
namespace {

class Writes final : public HttpReply {
 public:
  explicit Writes(int& calls) : calls_(calls) {}
  void send(HttpResponse) override { ++calls_; }
  void begin(int, std::string, Headers) override {}
  void write(std::string_view bytes) override {
    pieces.emplace_back(bytes);
    ++calls_;
  }
  void end() override {
    ended = true;
    ++calls_;
  }
  void on_gone(std::function<void(std::string_view)>) override {}

  std::vector<std::string> pieces;
  bool ended = false;

 private:
  int& calls_;
};

class GenerationTest : public ScriptedServer {
 protected:
  struct Stream {
    std::shared_ptr<Writes> writes;
    std::shared_ptr<Generation> generation;
  };
  Stream begin(bool stream = true) {
    const Json json = Json::parse(chat(stream ? R"("stream":true)" : R"("n":1)"));
    Stream out{.writes = std::make_shared<Writes>(calls_), .generation = {}};
    out.generation = std::make_shared<Generation>(
        prepare_chat(json, knows_), tokenizer(), generator_, metrics_, out.writes, Headers(), Dialect::kOpenAi,
        [this] { at_.push_back(calls_); }, [this](Generation&, const Outcome&) { at_.push_back(calls_); });
    out.generation->submit(inbox_);
    out.generation->begin();
    out.writes->pieces.clear();  // the role
    return out;
  }
  // What the server's thread does once it gets to it.
  void catch_up() {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }

  Engine::Id requests_ = 0;
  int calls_ = 0;        // of all replies
  std::vector<int> at_;  // how many had been when a generation was over, and when it was done
  Knowledge knows_{.tokenizer = tokenizer(), .context = 4096, .model_names = {"k3-tiny"}, .render = {}, .sampling = {}};
  Metrics metrics_{"k3-tiny"};
  std::vector<std::function<void()>> tasks_;
  std::shared_ptr<Inbox> inbox_ =
      std::make_shared<Inbox>([this](std::function<void()> task) { tasks_.push_back(std::move(task)); });
};

// Whoever has read the end of an answer may ask again: by then its places are free.
TEST_F(GenerationTest, OverBeforeTheLastIsSent) {
  for (const bool stream : {true, false}) {
    for (const FinishReason finish : {FinishReason::kStop, FinishReason::kError}) {
      const Stream one = begin(stream);
      calls_ = 0;
      at_.clear();
      generator_.give(++requests_, ids("hm"), finish);
      catch_up();
      EXPECT_EQ(at_, (std::vector<int>{0, stream ? 2 : 1}));
    }
  }
}

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
