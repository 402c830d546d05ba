#include "cli/writer.h"

#include "cli/output.h"

namespace nibble::cli {

// Parts stand a blank line apart.
void AnswerWriter::enter(Part part) {
  if (part == part_) return;
  if (part_ == Part::kReasoning) print(style_.reset());
  if (part_ != Part::kNone) print("\n\n");
  if (part == Part::kReasoning) print(style_.dim());
  part_ = part;
}

void AnswerWriter::write(const std::vector<text::ChatEvent>& events) {
  using Kind = text::ChatEvent::Kind;
  for (const text::ChatEvent& event : events) {
    switch (event.kind) {
      case Kind::kReasoning: enter(Part::kReasoning); break;
      case Kind::kContent: enter(Part::kContent); break;
      case Kind::kCallBegin:
        if (part_ == Part::kCall) part_ = Part::kContent;  // each call is a part of its own
        enter(Part::kCall);
        print("call ");
        break;
      case Kind::kCallArguments:
      case Kind::kCallEnd: break;
    }
    print(event.text);
    if (event.kind == Kind::kCallBegin) print(" ");
  }
  flush_output();
}

void AnswerWriter::finish() {
  if (part_ == Part::kReasoning) print(style_.reset());
  if (part_ != Part::kNone) print("\n");
  part_ = Part::kNone;
  flush_output();
}

}  // namespace nibble::cli
