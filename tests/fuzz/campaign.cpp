// Specifications of campaigns: any JSON is refused in one line or gives points, whose configurations read themselves
// back.
#include "fuzz_json.hpp"

#include <halfulp/report/campaign.hpp>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_json_bytes(data, size, [](const Json& json) {
    const Campaign campaign = campaign_of(json, 200, "fuzz.json");
    demand(!campaign.points.empty() && campaign.points.size() <= 200, "no more points than are allowed");
    for (const CampaignPoint& point : campaign.points) {
      demand(point.values.size() == campaign.axes.size(), "a point has a value of each axis");
      Config again(campaign.experiment->parameters());
      again.set(point.config.to_json());
      demand(again.to_json() == point.config.to_json(), "a configuration reads itself back");
    }
    return campaign.specification.dump();
  });
  return 0;
}
