// The two kinds of failure: a Refusal tells a user what to change, a ContractError tells us that our own code is wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace nibble {

// What cannot run right, said before any work. Printed as one line; the process then exits with 2.
class Refusal : public std::runtime_error {
 public:
  struct Parts {
    std::string what;  // the user's own words: a flag, a file, a tensor name
    std::string seen;  // the value found and where it was read
    std::string rule;  // what would be right, and why
    std::string fix;   // what to do
  };
  explicit Refusal(Parts parts);
  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

// A call outside an op's contract: a fault in nibble, never in the input.
class ContractError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace nibble
