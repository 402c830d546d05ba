// What a device reaches when it does nothing else: the ceilings that ops are held against.
#pragma once

#include "base/device.h"

namespace nibble::cuda {

class CudaDevice;

// A large copy, bytes read and written counted; bf16 products of the tensor cores out of shared memory, on random
// values. Takes some 100 ms and 1 GiB for as long.
Device::Peaks measure_peaks(CudaDevice& device);

}  // namespace nibble::cuda
