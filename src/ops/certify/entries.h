// The certifications that catalog() lists, one a file.
#pragma once

#include "ops/certify/certify.h"

namespace nibble::ops::certify {

Report add(Device& device);
Report attn_res_mix(Device& device);
Report causal_conv_silu(Device& device);
Report embedding(Device& device);
Report gated_rms_norm(Device& device);
Report kda_gate(Device& device);
Report kda_rows(Device& device);
Report linear(Device& device);
Report mla_append(Device& device);
Report mla_attention(Device& device);
Report moe_experts(Device& device);
Report moe_route(Device& device);
Report rms_norm(Device& device);
Report sample(Device& device);
Report select_rows(Device& device);
Report sigmoid_mul(Device& device);
Report situ(Device& device);

}  // namespace nibble::ops::certify
