#include "cli/session.h"

#include <stdexcept>

namespace nibble::cli {

Session::Session(const EngineOptions& options)
    : loaded_(options),
      runner_(engine::make_runner(options, loaded_)),
      loop_(*runner_, loaded_.tokenizer, loaded_.facts) {}

FinishReason Session::run(Request request, const std::function<bool(const Output&)>& each,
                          const std::function<bool()>& stop) {
  loaded_.prepare(request);
  constexpr Engine::Id kOnly = 1;
  Output output;
  bool news = false;
  // The loop keeps what a callback throws to itself, so the callback only takes the output down.
  loop_.submit(kOnly, std::move(request), [&](Engine::Id, const Output& latest) {
    output = latest;
    news = true;
  });
  FinishReason finish = FinishReason::kNone;
  try {
    while (finish == FinishReason::kNone && loop_.step()) {
      if (std::exchange(news, false)) {
        finish = output.finish;
        if (finish == FinishReason::kError) throw std::runtime_error(output.error);
        if (!each(output) && finish == FinishReason::kNone) finish = FinishReason::kCancelled;
      }
      if (finish == FinishReason::kNone && stop && stop()) finish = FinishReason::kCancelled;
    }
  } catch (...) {
    loop_.cancel_all();
    throw;
  }
  loop_.cancel_all();  // no effect on a request that has ended
  return finish;
}

}  // namespace nibble::cli
