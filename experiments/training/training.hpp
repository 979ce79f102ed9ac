// The parts of the experiment "training".
#pragma once

#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/tables.hpp>

namespace halfulp::trainings {

/// What is published of policies, and whether these trainings agree.
void claim_policies(const Config& config, const Data& data, const Outcomes& outcomes, Report& report);

}  // namespace halfulp::trainings
