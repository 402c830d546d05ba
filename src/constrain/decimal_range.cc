#include "constrain/decimal_range.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"

namespace nibble::constrain {
namespace {

constexpr size_t kIntegerDigits = 18, kDoubleDigits = 15;

// Both of one sign: -1, 0 or 1 as the size of a is below, equal to, or above that of b.
int compare_size(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int whole = a.whole.compare(b.whole);
  const int order = whole != 0 ? whole : a.fraction.compare(b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

// Numbers without a sign between two bounds, digit by digit. A state knows how many digits are still to come and
// whether those so far are the low bound's, or the high bound's: only then does a bound say what the next may be.
class Unsigned {
 public:
  Unsigned(Grammar& grammar, const Bound& low, const std::optional<Bound>& high, size_t whole, size_t fraction,
           Grammar::State to)
      : g_(grammar), low_(low), high_(high), whole_(whole), fraction_(fraction), to_(to) {}

  void add(Grammar::State from) {
    for (size_t length = low_.value.whole.size(); length <= whole_; ++length) {
      if (high_ && length > high_->value.whole.size()) return;
      const bool at_low = length == low_.value.whole.size();
      const bool at_high = high_ && length == high_->value.whole.size();
      add_digits(from, length, at_low, at_high, /*least=*/length == 1 ? 0 : 1);
    }
  }

 private:
  using Key = std::tuple<bool, size_t, bool, bool>;  // behind the point; digits to come, or had; at the bounds

  static int digit(const std::string& digits, size_t at) { return at < digits.size() ? digits[at] - '0' : 0; }

  template <class Target>
  void add_digit(Grammar::State from, int least, int low, int high, const Target& target) {
    for (int d = least; d <= 9; ++d) {
      if (d < low || d > high) continue;
      g_.add_symbols(from, '0' + d, '0' + d, target(d == low, d == high));
    }
  }

  void add_digits(Grammar::State from, size_t left, bool at_low, bool at_high, int least) {
    const int low = at_low ? digit(low_.value.whole, low_.value.whole.size() - left) : -1;
    const int high = at_high ? digit(high_->value.whole, high_->value.whole.size() - left) : 99;
    add_digit(from, least, low, high, [&](bool l, bool h) { return whole(left - 1, l, h); });
  }

  Grammar::State whole(size_t left, bool at_low, bool at_high) {
    const auto [it, fresh] = states_.try_emplace(Key{false, left, at_low, at_high}, 0);
    if (!fresh) return it->second;
    const Grammar::State state = it->second = g_.add_state();
    if (left > 0) {
      add_digits(state, left, at_low, at_high, 0);
      return state;
    }
    end_here(state, 0, at_low, at_high);
    if (fraction_ > 0) {
      const Grammar::State point = g_.add_state();
      g_.add_symbols(state, '.', '.', point);
      add_fraction(point, 0, at_low, at_high);
    }
    return state;
  }

  void add_fraction(Grammar::State from, size_t had, bool at_low, bool at_high) {
    const int low = at_low ? digit(low_.value.fraction, had) : -1;
    const int high = at_high ? digit(high_->value.fraction, had) : 99;
    add_digit(from, 0, low, high, [&](bool l, bool h) { return fraction(had + 1, l, h); });
  }

  Grammar::State fraction(size_t had, bool at_low, bool at_high) {
    const auto [it, fresh] = states_.try_emplace(Key{true, had, at_low, at_high}, 0);
    if (!fresh) return it->second;
    const Grammar::State state = it->second = g_.add_state();
    end_here(state, had, at_low, at_high);
    if (had < fraction_) add_fraction(state, had, at_low, at_high);
    return state;
  }

  // A number whose digits are all a bound's so far is below it where the bound has more of them.
  void end_here(Grammar::State state, size_t had, bool at_low, bool at_high) {
    const bool low_enough = !at_high || had < high_->value.fraction.size() || high_->itself;
    const bool high_enough = !at_low || (had >= low_.value.fraction.size() && low_.itself);
    if (low_enough && high_enough) g_.add_empty(state, to_);
  }

  Grammar& g_;
  Bound low_;
  std::optional<Bound> high_;
  size_t whole_, fraction_;
  Grammar::State to_;
  std::map<Key, Grammar::State> states_;
};

Bound without_sign(Bound bound) {
  bound.value.negative = false;
  return bound;
}

void add_range(Grammar& g, Grammar::State from, const std::optional<Bound>& low, const std::optional<Bound>& high,
               size_t whole, size_t fraction, bool minus_zero, Grammar::State to) {
  const Bound zero, above_zero{.value = {}, .itself = false};
  const auto add = [&](Grammar::State begin, const Bound& least, const std::optional<Bound>& most) {
    const int order = most ? compare_size(least.value, most->value) : -1;
    if (order > 0 || (order == 0 && !(least.itself && most->itself))) return;
    Unsigned(g, least, most, whole, fraction, to).add(begin);
  };
  if (!high || !high->value.negative) add(from, !low || low->value.negative ? zero : *low, high);
  if (low && !low->value.negative) return;
  const Grammar::State minus = g.add_state();
  g.add_symbols(from, '-', '-', minus);
  const bool below = high && high->value.negative;
  std::optional<Bound> most;
  if (low) most = without_sign(*low);
  const bool zero_fits = minus_zero && (!high || high->itself || !high->value.is_zero());
  add(minus, below ? without_sign(*high) : zero_fits ? zero : above_zero, most);
}

}  // namespace

Decimal Decimal::parse(std::string_view literal) {
  Decimal out;
  std::string digits;
  int64_t exponent = 0;
  size_t i = 0;
  if (literal.starts_with('-')) out.negative = true, ++i;
  bool behind_point = false;
  for (; i < literal.size() && literal[i] != 'e' && literal[i] != 'E'; ++i) {
    if (literal[i] == '.') {
      behind_point = true;
      continue;
    }
    digits += literal[i];
    exponent -= behind_point ? 1 : 0;
  }
  if (i < literal.size()) exponent += std::atoll(std::string(literal.substr(i + 1)).c_str());
  if (digits.size() > 40 || exponent > 40 || exponent < -40) {
    throw Refusal({.what = "the constraint",
                   .seen = "the number " + std::string(literal),
                   .rule = "bounds have at most 40 digits",
                   .fix = "a bound with fewer"});
  }
  if (exponent > 0) digits.append(static_cast<size_t>(exponent), '0');
  const auto behind = static_cast<size_t>(std::max<int64_t>(0, -exponent));
  if (digits.size() <= behind) digits.insert(0, behind + 1 - digits.size(), '0');
  out.whole = digits.substr(0, digits.size() - behind);
  out.fraction = digits.substr(digits.size() - behind);
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

void add_integers(Grammar& grammar, Grammar::State from, const std::optional<Bound>& low,
                  const std::optional<Bound>& high, Grammar::State to) {
  add_range(grammar, from, low, high, kIntegerDigits, 0, /*minus_zero=*/false, to);
}

void add_numbers(Grammar& grammar, Grammar::State from, const std::optional<Bound>& low,
                 const std::optional<Bound>& high, Grammar::State to) {
  size_t whole = 1, fraction = 0;
  for (const std::optional<Bound>& bound : {low, high}) {
    if (!bound) continue;
    whole = std::max(whole, bound->value.whole.size());
    fraction = std::max(fraction, bound->value.fraction.size());
  }
  if (whole + fraction > kDoubleDigits) {
    throw Refusal({.what = "the constraint",
                   .seen = "bounds of a number with more than 15 digits",
                   .rule = "a double keeps apart no more, so nobody could check the answer",
                   .fix = "bounds with fewer digits, or an integer"});
  }
  const size_t behind = std::max(fraction, std::min<size_t>(6, kDoubleDigits - whole));
  add_range(grammar, from, low, high, kDoubleDigits - behind, behind, /*minus_zero=*/true, to);
}

}  // namespace nibble::constrain
