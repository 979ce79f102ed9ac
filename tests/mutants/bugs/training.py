"""Planted bugs in trainings under a policy."""

BUGS = [
    ("product errors: what the sums lost counts as the operands'", "training/product_errors.cpp",
     "e.accumulation += (s - z) * (s - z)", "e.accumulation += (s - y) * (s - y)", "model_watch"),
    ("product errors: every head is measured at the same row", "training/product_errors.cpp",
     "(turns - std::floor(turns))", "0.0", "model_watch"),
    ("operands: 9 bits count as bf16", "training/operand.cpp",
     "range.zeros >= fp32.fraction_bits - f.fraction_bits;", "range.zeros >= fp32.fraction_bits - f.fraction_bits - 1;", "policy_numerics"),
    ("product errors: scales of blocks are forgotten", "training/product_errors.cpp",
     "if (!operand.scales.empty()) scale *=", "if (false) scale *=", "model_watch"),
    ("watching: an observer draws other random bits", "training/policy_numerics.cpp",
     "if (!observer_ || !observer_->measures()) return {};", "if (!observer_ || !observer_->measures()) return {}; next_random();", "model_watch"),
    ("product errors: a cut gradient is the sums' error", "training/policy_numerics.cpp",
     "observer_->see_product({site, which, 1, came, a_, b_, bias, sums, d, model})", "observer_->see_product({site, which, 1, came, a_, b_, bias, d, d, model})", "model_watch"),
    ("counting: what is at the limit is beyond it", "training/counting.cpp",
     "std::fabs(was[i]) > limit", "std::fabs(was[i]) >= limit", "counting"),
    ("counting: the last products of a sum are forgotten", "training/counting.cpp",
     "for (std::size_t i = whole; i < count; ++i)", "for (std::size_t i = count; i < count; ++i)", "counting"),
    ("exponents: subnormal gradients are left out", "training/runs/model_report.cpp",
     "if (counts[0] > own.zeros)", "if (false)", "model_watch"),
    ("operands: elements below a scale of NaN are numbers", "training/operand.cpp",
     "numbers &= scale == scale;", "", "policy_blocks"),
]
