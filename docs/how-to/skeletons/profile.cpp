// A cast profile: a library that saturates finite numbers to E4M3, makes infinity NaN, and knows one NaN.
#include <halfulp/emulation/cast/rules.hpp>

namespace halfulp::casts {

constexpr CastRule my_rules[] = {
    // to, from which formats, what is called, finite numbers beyond the range, infinities, NaN
    rule(e4m3, source::fp32 | source::bf16, "my_cast_e4m3(float)", largest(e4m3), nan(e4m3), both(0x7f)),
    // From double it goes through float, and rounds twice.
    through_fp32(rule(e4m3, source::fp64, "my_cast_e4m3(double)", largest(e4m3), nan(e4m3), both(0x7f)), source::fp64),
};

constexpr Profile my_profile{"my-library", "My library's casts", "1.0", "its manual, section 3", my_rules, "FP8 to anything"};

}  // namespace halfulp::casts
