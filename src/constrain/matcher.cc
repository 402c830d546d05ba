#include "constrain/matcher.h"

#include <algorithm>

#include "base/error.h"

namespace nibble::constrain {
namespace {

class Mask final : public TokenMask {
 public:
  explicit Mask(std::shared_ptr<Compiled> compiled) : matcher_(std::move(compiled)) {}
  void restrict(std::span<uint64_t> allowed) override { matcher_.restrict(allowed); }
  void accept(int32_t id) override {
    if (!matcher_.advance(id)) throw ContractError("constrain: a token that was not allowed");
  }

 private:
  Matcher matcher_;
};

}  // namespace

Compiled::Compiled(Grammar grammar, std::shared_ptr<const TokenTrie> trie, int64_t kept_bytes)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      kept_bytes_(kept_bytes),
      store_(std::make_shared<Store>(grammar_, *trie_)) {}

std::shared_ptr<Store> Compiled::fresh_if_full(const std::shared_ptr<Store>& store) {
  if (store != store_ || store->bytes() <= kept_bytes_) return store_;
  return store_ = std::make_shared<Store>(grammar_, *trie_);
}

Matcher::Matcher(std::shared_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {
  const std::lock_guard lock(compiled_->mutex_);
  store_ = compiled_->store_;
  place_ = store_->start();
}

bool Matcher::advance(int32_t id) {
  const std::span<const int32_t> ends = compiled_->trie_->ends();
  const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
  const std::lock_guard lock(compiled_->mutex_);
  if (is_end) {
    if (!store_->complete(place_)) return false;
    ended_ = true;
    return true;
  }
  const Place to = ended_ ? Store::kDead : store_->after_token(place_, id);
  if (to == Store::kDead) return false;
  place_ = to;
  return true;
}

void Matcher::restrict(std::span<uint64_t> allowed) {
  const std::lock_guard lock(compiled_->mutex_);
  if (ended_) {
    std::vector<uint64_t> only(allowed.size());
    for (const int32_t id : compiled_->trie_->ends()) only[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
    for (size_t i = 0; i < allowed.size(); ++i) allowed[i] &= only[i];
    return;
  }
  const std::shared_ptr<Store> current = compiled_->fresh_if_full(store_);
  if (current != store_) {
    place_ = current->import(*store_, place_);
    store_ = current;
  }
  const std::span<const uint64_t> mask = store_->allowed(place_);
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] &= i < mask.size() ? mask[i] : 0;
}

bool Matcher::complete() const {
  const std::lock_guard lock(compiled_->mutex_);
  return store_->complete(place_);
}

std::unique_ptr<TokenMask> make_mask(std::shared_ptr<Compiled> compiled) {
  return std::make_unique<Mask>(std::move(compiled));
}

}  // namespace nibble::constrain
