#include "cuda/launch.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace nibble::cuda {
namespace {

std::string fault_of(const LaunchShape& shape) {
  try {
    check_launch("some_op", shape, {});
  } catch (const ContractError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, WhatTheDeviceTakesPasses) {
  EXPECT_EQ(fault_of({}), "");
  EXPECT_EQ(fault_of({.x = 0, .y = 0}), "");  // nothing to do
  EXPECT_EQ(fault_of({.x = 2147483647, .y = 65535, .threads = 1024, .shared = 232448}), "");
}

TEST(Launch, WhatItDoesNotTakeNamesOpAndLimit) {
  EXPECT_NE(fault_of({.x = int64_t{1} << 31}).find("some_op: a launch with 2147483648 blocks in x"), std::string::npos);
  EXPECT_NE(fault_of({.y = 65536}).find("65536 blocks in y, at most 65535"), std::string::npos);
  EXPECT_NE(fault_of({.threads = 1056}).find("threads"), std::string::npos);
  EXPECT_NE(fault_of({.shared = 232449}).find("shared memory"), std::string::npos);
  EXPECT_NE(fault_of({.x = -1}), "");
}

TEST(Launch, RowsAreInX) {  // a step may have 65,536 of them, one more than y takes
  const LaunchShape shape = elementwise(65536, 257);
  EXPECT_EQ(shape.x, 65536);
  EXPECT_EQ(shape.y, 2);
  EXPECT_EQ(fault_of(shape), "");
  EXPECT_EQ(elementwise(3, 0).y, 0);
}

TEST(Launch, AHeadOfKdaFitsABlock) {  // K3's, and four times as wide; beyond that the launch is refused
  EXPECT_EQ(kda_rows_shared_bytes(128, 128), 16 * (6 * 128 + 34) * 4);
  EXPECT_EQ(fault_of({.shared = kda_rows_shared_bytes(128, 128)}), "");
  EXPECT_EQ(fault_of({.shared = kda_rows_shared_bytes(512, 512)}), "");
  EXPECT_NE(fault_of({.shared = kda_rows_shared_bytes(1024, 1024)}), "");
}

}  // namespace
}  // namespace nibble::cuda
