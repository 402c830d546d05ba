#include "traffic/workload.h"

namespace nibble::traffic {

std::vector<PlannedRequest> make_workload(const WorkloadOptions& o) {
  // Streams of their own, so that a longer prompt does not move the next one's length.
  Random lengths(o.seed), ids(o.seed + 1), gaps(o.seed + 2);
  std::vector<PlannedRequest> out(static_cast<size_t>(o.requests));
  double now = 0.0;
  for (PlannedRequest& request : out) {
    request.arrival = now;
    if (o.rate > 0.0) now += gaps.exponential(1.0 / o.rate);
    request.prompt.resize(static_cast<size_t>(o.prompt.draw(lengths)));
    for (int32_t& id : request.prompt) id = static_cast<int32_t>(ids.integer(0, o.ids - 1));
    request.output = o.output.draw(lengths);
  }
  return out;
}

}  // namespace nibble::traffic
