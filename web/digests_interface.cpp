// The functions of digests.wasm.
#include <halfulp/web/digests.hpp>
#include <halfulp/web/module.hpp>

namespace halfulp::web {

HALFULP_EXPORT(digest_count) std::size_t module_digest_count() { return digest_count(); }
HALFULP_EXPORT(digest_name) const char* module_digest_name(std::size_t index) { return answer(digest_name(index)); }
HALFULP_EXPORT(digest_of) std::uint64_t module_digest_of(std::size_t index) { return digest_of(index); }

}  // namespace halfulp::web
