// What is published of the policies, and whether these trainings agree.
#pragma once

#include <halfulp/experiments/trainings/setup.hpp>
#include <halfulp/experiments/trainings/spread.hpp>

namespace halfulp::trainings {

void claim_training(const Config& config, const Data& data, const Outcomes& outcomes, Report& report);

}  // namespace halfulp::trainings
