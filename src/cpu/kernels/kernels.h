// The kernels of one instruction set.
#pragma once

#include "ops/kernel_table.h"

namespace nibble::cpu::NIBBLE_ISA {

void add(Device& device, const ops::Add& args);
void attn_res_mix(Device& device, const ops::AttnResMix& args);
void mla_append(Device& device, const ops::MlaAppend& args);
void mla_attention(Device& device, const ops::MlaAttention& args);
void rms_norm(Device& device, const ops::RmsNorm& args);
void sample(Device& device, const ops::Sample& args);
void select_rows(Device& device, const ops::SelectRows& args);
void sigmoid_mul(Device& device, const ops::SigmoidMul& args);

}  // namespace nibble::cpu::NIBBLE_ISA
