#include "testing/test_device.h"

const char* nibble::testing::device_under_test() { return "cuda"; }
