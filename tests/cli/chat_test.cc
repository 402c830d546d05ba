// `nibble chat`, piped and on a pseudo-terminal.
#include <gtest/gtest.h>

#include "cli/terminal_session.h"

namespace nibble::cli {
namespace {

const Arguments kChat = {"chat", "-m", model(), "--temp", "0"};
const std::string kDim = "\033[2m";
const std::string kHello = "Hello! I am a tiny Kimi K3 style model.";

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// No token may end an answer: it goes on until somebody stops it.
Arguments endless() {
  Arguments arguments = kChat;
  for (int id = 1792; id < 1795; ++id) arguments = with(arguments, {"--logit-bias", std::to_string(id) + ":-inf"});
  return arguments;
}

TEST(ChatPiped, EachLineIsATurn) {
  const Ended r = run(kChat, {.input = "hi!\n\n/clear\nhi!"});  // the last line has no break
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  const size_t first = r.out.find(kHello);
  ASSERT_NE(first, std::string::npos) << r.out;
  EXPECT_NE(r.out.find(kHello, first + 1), std::string::npos);
  EXPECT_EQ(r.out.find('\033'), std::string::npos);
  EXPECT_EQ(r.out.find("> "), std::string::npos);
  // After /clear the conversation is as at the start.
  EXPECT_EQ(r.out.substr(0, r.out.size() / 2), r.out.substr(r.out.size() / 2));
}

TEST(ChatPiped, TurnsBelongToOneConversation) {
  const Ended twice = run(kChat, {.input = "hi!\nhi!\n"}), once = run(kChat, {.input = "hi!\n"});
  EXPECT_EQ(twice.out.substr(0, once.out.size()), once.out);
  const Ended system = run(with(kChat, {"-sys", "You are terse."}), {.input = "hi!\n"});
  EXPECT_EQ(system.code, 0);
}

TEST(ChatPiped, FullContextIsSaid) {
  const Ended r = run(with(kChat, {"-c", "90"}), {.input = "hi!\nthank you\nonce more please\n"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("the context is full: the conversation has"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("/clear starts a new"), std::string::npos);
}

TEST(ChatPiped, BadLinesAreRefusedAndTheNextOneIsAnswered) {
  const Ended r = run(kChat, {.input = "\xFF\xFE\n/nonsense\nhi!\n"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("UTF-8"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("'/nonsense': no such command"), std::string::npos);
  EXPECT_NE(r.out.find(kHello), std::string::npos);
}

TEST(ChatPiped, ExitLeavesTheRestUnread) {
  const Ended r = run(kChat, {.input = "/exit\nhi!\n"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "");
}

TEST(ChatTerminal, ThinkingIsDimUnlessColoursAreOff) {
  TerminalSession session(kChat);
  ASSERT_TRUE(session.wait_for("> "));
  session.type("hi!\n");
  ASSERT_TRUE(session.wait_for(kDim)) << session.screen();
  ASSERT_TRUE(session.wait_for("\033[0m"));
  ASSERT_TRUE(session.wait_for("word problem."));
  session.type("\x04");
  EXPECT_EQ(session.exit_code(), 0);

  TerminalSession plain(kChat, {"NO_COLOR=1"});
  ASSERT_TRUE(plain.wait_for("> "));
  plain.type("hi!\n");
  ASSERT_TRUE(plain.wait_for("word problem."));
  plain.type("/exit\n");
  EXPECT_EQ(plain.exit_code(), 0);
  EXPECT_EQ(plain.screen().find('\033'), std::string::npos) << plain.screen();
}

TEST(ChatTerminal, ControlCStopsTheAnswerNotTheProgram) {
  TerminalSession session(endless());
  ASSERT_TRUE(session.wait_for("> "));
  session.type("hi!\n");
  ASSERT_TRUE(session.wait_for("word problem.")) << session.screen();
  session.type("\x03");
  ASSERT_TRUE(session.wait_for("stopped")) << session.screen();
  ASSERT_TRUE(session.wait_for("> "));
  session.type("/help\n");
  ASSERT_TRUE(session.wait_for("forget the conversation"));
  session.type("hi!\n");  // and it still answers
  ASSERT_TRUE(session.wait_for(kDim));
  session.type("\x03");
  ASSERT_TRUE(session.wait_for("stopped"));
  session.type("/exit\n");
  EXPECT_EQ(session.exit_code(), 0);
}

TEST(ChatTerminal, ControlCTwiceAtThePromptLeaves) {
  TerminalSession session(kChat);
  ASSERT_TRUE(session.wait_for("> "));
  session.type("\x03");
  ASSERT_TRUE(session.wait_for("Ctrl-C again leaves")) << session.screen();
  session.type("/clear\n");  // a line between: the next one is a first one again
  ASSERT_TRUE(session.wait_for("a new conversation"));
  ASSERT_TRUE(session.wait_for("> "));
  session.type("\x03");
  ASSERT_TRUE(session.wait_for("Ctrl-C again leaves"));
  session.type("\x03");
  EXPECT_EQ(session.exit_code(), 130);
}

}  // namespace
}  // namespace nibble::cli
