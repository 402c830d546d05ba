// The certifications that catalog() lists, one a file.
#pragma once

#include "ops/certify/certify.h"

namespace nibble::ops::certify {

Report causal_conv_silu(Device& device);
Report embedding(Device& device);
Report gated_rms_norm(Device& device);
Report kda_gate(Device& device);
Report kda_rows(Device& device);
Report linear(Device& device);
Report moe_experts(Device& device);
Report moe_route(Device& device);
Report rms_norm(Device& device);
Report situ(Device& device);

}  // namespace nibble::ops::certify
