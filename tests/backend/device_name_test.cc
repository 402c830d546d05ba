#include "backend/device_name.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace nibble::backend {
namespace {

TEST(DeviceName, KindsAndIndexes) {
  EXPECT_EQ(parse_device("cpu").kind, "cpu");
  EXPECT_EQ(parse_device("auto").kind, "auto");
  EXPECT_EQ(parse_device("cuda").kind, "cuda");
  EXPECT_EQ(parse_device("cuda").index, 0);
  EXPECT_EQ(parse_device("cuda:0").index, 0);
  EXPECT_EQ(parse_device("cuda:12").index, 12);
}

TEST(DeviceName, AnythingElseIsRefusedByName) {
  for (const char* name : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:1000", "cuda:0:1", "cpu:0",
                           "auto:1", " cuda", "cuda "}) {
    try {
      parse_device(name);
      ADD_FAILURE() << name << " was taken";
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.parts().what, std::string("device ") + name);
    }
  }
}

}  // namespace
}  // namespace nibble::backend
