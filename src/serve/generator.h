// What makes tokens for the server.
#pragma once

#include <utility>

#include "nibble/engine.h"

namespace nibble::serve {

// nibble::Engine, or a script in tests. Called from any thread.
class Generator {
 public:
  virtual ~Generator() = default;
  virtual Engine::Id submit(Request request, Engine::Callback callback) = 0;
  virtual void cancel(Engine::Id id) = 0;
  virtual EngineStats stats() const = 0;
};

class EngineGenerator final : public Generator {
 public:
  explicit EngineGenerator(const EngineOptions& options) : engine_(options) {}
  Engine::Id submit(Request request, Engine::Callback callback) override {
    return engine_.submit(std::move(request), std::move(callback));
  }
  void cancel(Engine::Id id) override { engine_.cancel(id); }
  EngineStats stats() const override { return engine_.stats(); }
  Engine& engine() { return engine_; }

 private:
  Engine engine_;
};

}  // namespace nibble::serve
