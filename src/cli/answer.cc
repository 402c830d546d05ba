#include "cli/answer.h"

namespace nibble::cli {

Answer chat_answer(const text::ChatReader& reader, std::vector<int32_t> tokens, FinishReason finish) {
  text::ChatAnswer answer = reader.answer();
  Answer out{.tokens = std::move(tokens),
             .text = std::move(answer.content),
             .reasoning = std::move(answer.reasoning),
             .calls = std::move(answer.calls),
             .finish_reason = std::string(name_of(finish))};
  if (reader.stopped() || finish == FinishReason::kStop) {
    const auto cause = reader.stopped() ? text::StopCause::kStopString : text::StopCause::kStopId;
    out.finish_reason = text::finish_reason(cause, reader.parser().calls());
  }
  return out;
}

}  // namespace nibble::cli
