#pragma once

#include "checkpoint/config.h"
#include "checkpoint/synth_text.h"

namespace nibble::plan {

inline checkpoint::Config config_of(const char* shape, fp4::WeightFormat format = fp4::WeightFormat::kMxfp4) {
  checkpoint::SynthOptions options;
  options.shape = shape;
  options.format = format;
  return checkpoint::parse_config(checkpoint::synth_config_json(options), shape);
}

}  // namespace nibble::plan
