// A file that was cut anywhere becomes the file that was never cut; a file that is not ours is left as it is.
#include "eval/record_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "eval/sample.h"

namespace nibble::eval {
namespace {

class RecordFileTest : public ::testing::Test {
 protected:
  RecordFileTest() { std::filesystem::remove(path_); }
  ~RecordFileTest() override { std::filesystem::remove(path_); }

  void put(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string refusal(bool resume) const {
    const std::string before = bytes();
    try {
      RecordFile file(path_, header_, problems_, resume);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(bytes(), before);
      return refusal.parts().seen;
    }
    return "";
  }
  // Opens and writes what is missing.
  void finish(bool resume) const {
    RecordFile file(path_, header_, problems_, resume);
    if (file.done() < 4) file.append(std::span(records_).subspan(static_cast<size_t>(file.done())));
    EXPECT_EQ(file.done(), 4);
    EXPECT_EQ(file.right(), 2);
  }

  const std::filesystem::path path_ = ::testing::TempDir() + "/nibble_records_" + std::to_string(::getpid()) + ".jsonl";
  std::vector<Problem> problems_ = sample_problems();
  Header header_ = sample_header(problems_);
  std::vector<Record> records_ = sample_records(problems_);
  std::string whole_ = sample_file(header_, records_);
};

TEST_F(RecordFileTest, IsHeaderAndRecords) {
  finish(/*resume=*/false);
  EXPECT_EQ(bytes(), whole_);
  std::filesystem::remove(path_);
  finish(/*resume=*/true);  // nothing to resume is no fault
  EXPECT_EQ(bytes(), whole_);
}

TEST_F(RecordFileTest, HowManyAtOnceDoesNotMatter) {
  {
    RecordFile file(path_, header_, problems_, false);
    file.append(std::span(records_).first(1));
    file.append(std::span(records_).subspan(1, 2));
    file.append(std::span(records_).subspan(3));
  }
  EXPECT_EQ(bytes(), whole_);
}

TEST_F(RecordFileTest, CutAnywhereEndsTheSame) {
  for (size_t cut = 0; cut <= whole_.size(); ++cut) {
    const bool at_line_end = whole_.substr(cut < 2 ? 0 : cut - 2, 4).find('\n') != std::string::npos;
    if (!at_line_end && cut % 7 != 0) continue;  // each waits for the disk
    put(whole_.substr(0, cut));
    finish(/*resume=*/true);
    ASSERT_EQ(bytes(), whole_) << cut;
  }
}

TEST_F(RecordFileTest, CountsWhatWasThere) {
  put(whole_.substr(0, whole_.size() - 3));
  RecordFile file(path_, header_, problems_, true);
  EXPECT_EQ(file.done(), 3);
  EXPECT_EQ(file.right(), 2);
}

TEST_F(RecordFileTest, NeverOverwrites) {
  put(whole_);
  EXPECT_EQ(refusal(/*resume=*/false), "the file is there already");
}

TEST_F(RecordFileTest, LeavesOtherFilesAlone) {
  for (const char* text : {"a note without an end", "a note\n", "{}\n", "\n", "{\"nibble_eval\":1}\n"}) {
    put(text);
    EXPECT_EQ(refusal(/*resume=*/true), "not a file of records") << text;
  }
}

TEST_F(RecordFileTest, OneWriterAtATime) {
  RecordFile file(path_, header_, problems_, true);
  EXPECT_EQ(refusal(/*resume=*/true), "another process is writing it");
}

TEST_F(RecordFileTest, OtherRunsAreNamed) {
  put(whole_);
  const auto seen = [&](const auto& change) {
    const Header kept = header_;
    change(header_);
    std::string out = refusal(/*resume=*/true);
    header_ = kept;
    return out;
  };
  const std::string begun = "it was begun with another ";
  EXPECT_EQ(seen([](Header& h) { h.version = "9"; }), begun + "version");
  EXPECT_EQ(seen([](Header& h) { h.build = "9"; }), begun + "program");
  EXPECT_EQ(seen([](Header& h) { h.weights = "9"; }), begun + "model");
  EXPECT_EQ(seen([](Header& h) { h.config = "9"; }), begun + "model");
  EXPECT_EQ(seen([](Header& h) { h.device = "9"; }), begun + "kernels");
  EXPECT_EQ(seen([](Header& h) { h.precision = "9"; }), begun + "--precision");
  EXPECT_EQ(seen([](Header& h) { h.mla_form = "9"; }), begun + "--mla");
  EXPECT_EQ(seen([](Header& h) { h.max_tokens = h.context = 9; }), begun + "--max-tokens, context");
  EXPECT_EQ(seen([](Header& h) { h.hashes.prompts = "9"; }), begun + "problems");
  EXPECT_EQ(seen([](Header& h) { h.problems = 9; }), begun + "problems");
  EXPECT_EQ(seen([](Header&) {}), "");
}

TEST_F(RecordFileTest, RecordsThatAreNotItsOwnAreRefused) {
  const auto seen = [&](const std::vector<Record>& records, const std::string& more = "") {
    put(sample_file(header_, records) + more);
    return refusal(/*resume=*/true);
  };
  EXPECT_EQ(seen({records_[1]}), "line 2 has id 1");
  EXPECT_EQ(seen({records_[0], records_[0]}), "line 3 has id 0");
  EXPECT_EQ(seen({records_[0], records_[2]}), "line 3 has id \"c\"");
  auto five = records_;
  five.push_back(records_[3]);
  EXPECT_EQ(seen(five), "line 6 has id 9");
  EXPECT_EQ(seen({}, "\n"), "line 2 is no record");
  EXPECT_EQ(seen({}, std::string(40, '\0') + "\n"), "line 2 is no record");
  Record wrong = records_[0];
  wrong.right = false;
  EXPECT_EQ(seen({wrong}), "line 2: right is not answer == expected");
}

TEST_F(RecordFileTest, PlacesThatCannotBeWritten) {
  const auto seen = [this](const std::filesystem::path& path) -> std::string {
    try {
      RecordFile file(path, header_, problems_, /*resume=*/true);
    } catch (const Refusal& refusal) {
      return refusal.parts().seen;
    }
    return "";
  };
  EXPECT_EQ(seen(path_ / "below"), "No such file or directory");
  EXPECT_EQ(seen("/dev/zero"), "not a regular file");
}

}  // namespace
}  // namespace nibble::eval
