#include "cuda/architecture.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace nibble::cuda {
namespace {

Refusal::Parts refusal_of(int major, int minor) {
  try {
    require_certified("cuda:1", "NVIDIA Some", major, minor);
  } catch (const Refusal& refusal) {
    return refusal.parts();
  }
  ADD_FAILURE() << major << "." << minor << " was taken";
  return {};
}

TEST(Architecture, HopperIsCertified) { EXPECT_EQ(require_certified("cuda:0", "NVIDIA H200", 9, 0).name, "sm_90a"); }

TEST(Architecture, WhatOnlyCompilesIsRefusedByName) {
  for (const Architecture& a : architectures()) {
    if (a.certified) continue;
    const Refusal::Parts parts = refusal_of(a.major, a.minor);
    EXPECT_EQ(parts.what, "device cuda:1");
    EXPECT_NE(parts.seen.find("NVIDIA Some"), std::string::npos);
    EXPECT_NE(parts.seen.find("not been certified"), std::string::npos) << parts.seen;
    EXPECT_NE(parts.rule.find("sm_90a"), std::string::npos) << parts.rule;
  }
}

TEST(Architecture, WhatThereIsNoCodeForIsRefusedByName) {
  for (const auto& [major, minor] : {std::pair{8, 0}, {9, 1}, {11, 0}, {12, 1}}) {
    const Refusal::Parts parts = refusal_of(major, minor);
    EXPECT_NE(parts.seen.find(std::to_string(major) + "." + std::to_string(minor)), std::string::npos);
    EXPECT_NE(parts.rule.find("sm_120a"), std::string::npos) << parts.rule;
  }
}

}  // namespace
}  // namespace nibble::cuda
