// Prints every digest, a line each: what the WebAssembly module has to compute too.
#include <halfulp/web/digests.hpp>

#include <cinttypes>
#include <cstdio>

int main() {
  for (std::size_t i = 0; i < halfulp::web::digest_count(); ++i)
    std::printf("%016" PRIx64 " %s\n", halfulp::web::digest_of(i), halfulp::web::digest_name(i).c_str());
}
