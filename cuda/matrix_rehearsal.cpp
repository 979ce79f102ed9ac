#include <halfulp/cuda/matrix_rehearsal.hpp>

#include <halfulp/cuda/documented.hpp>
#include <halfulp/cuda/matrix_instructions.hpp>
#include <halfulp/cuda/transfer.hpp>

#include <cstring>
#include <stdexcept>
#include <vector>

namespace halfulp::cuda {
namespace {

using Words = std::vector<std::uint64_t>;

std::uint64_t load(const void* from, Element e, std::size_t index) {
  std::uint64_t word = 0;
  const auto bytes = static_cast<std::size_t>(bytes_of(e));
  std::memcpy(&word, static_cast<const unsigned char*>(from) + index * bytes, bytes);  // little-endian, as the device
  return word;
}

auto from(const void* memory, Element e) {
  return [memory, e](std::size_t index) { return load(memory, e, index); };
}

auto to(unsigned char* memory, Element e) {
  return [memory, e](int offset, std::uint64_t word) {
    std::memcpy(memory + offset, &word, static_cast<std::size_t>(bytes_of(e)));
  };
}

/// The fragment of one matrix in the registers of all threads.
struct Fragments {
  Element element;
  int each;  ///< registers of a thread
  Words registers;
  Fragments(Element e, int count, int threads)
      : element(e), each(cuda::registers(e, count)), registers(static_cast<std::size_t>(each * threads)) {}
  std::uint64_t* of(int thread) { return registers.data() + thread * each; }
  /// Element i as the documentation numbers them: the low end of a register first.
  std::uint64_t element_of(int thread, int i) {
    const int bits = 8 * bytes_of(element), per = bits < 32 ? 32 / bits : 1;
    const std::uint64_t word = of(thread)[i / per] >> (i % per * bits);
    return bits == 64 ? word : word & ((std::uint64_t{1} << bits) - 1);
  }
  void set_element(int thread, int i, std::uint64_t word) {
    const int bits = 8 * bytes_of(element), per = bits < 32 ? 32 / bits : 1, shift = i % per * bits;
    const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : ((std::uint64_t{1} << bits) - 1) << shift;
    std::uint64_t& r = of(thread)[i / per];
    r = (r & ~mask) | word << shift;
  }
};

/// A of m rows of k, B of n columns of k, C and D of m rows of n.
struct Tile {
  Words a, b, d;
};

/// D = A B + D. Rows that are the same are multiplied once.
void multiply(const MatrixUnit& unit, const MatrixInstruction& x, Tile& t) {
  const auto line = [&](const Words& words, int i, int length) {
    return std::span<const std::uint64_t>(words).subspan(static_cast<std::size_t>(i * length),
                                                         static_cast<std::size_t>(length));
  };
  const Words c = t.d;
  const auto same = [&](const Words& words, int i, int j, int length) {
    const auto one = line(words, i, length), other = line(words, j, length);
    return std::equal(one.begin(), one.end(), other.begin());
  };
  for (int row = 0; row < x.m; ++row) {
    const bool copy = row >= x.n && same(t.a, row, row - x.n, x.k) && same(c, row, row - x.n, x.n);
    for (int column = 0; column < x.n; ++column) {
      const auto at = static_cast<std::size_t>(row * x.n + column);
      t.d[at] = copy ? t.d[at - static_cast<std::size_t>(x.n * x.n)]
                     : mma(unit, {line(t.a, row, x.k), line(t.b, column, x.k), {}, {}}, c[at]);
    }
  }
}

Tile empty_tile(const MatrixInstruction& x) {
  const auto words = [](int count) { return Words(static_cast<std::size_t>(count)); };
  return {words(x.m * x.k), words(x.k * x.n), words(x.m * x.n)};
}

void read_d(const MatrixInstruction& x, std::vector<Tile>& tiles, Fragments& d) {
  for (int thread = 0; thread < x.threads(); ++thread)
    for (int i = 0; i < x.d_count(); ++i) {
      const TileElement p = documented::d(x, thread, i);
      tiles.at(static_cast<std::size_t>(p.tile)).d.at(static_cast<std::size_t>(p.row * x.n + p.column)) = d.element_of(
          thread, i);
    }
}

void write_d(const MatrixInstruction& x, const std::vector<Tile>& tiles, Fragments& d) {
  for (int thread = 0; thread < x.threads(); ++thread)
    for (int i = 0; i < x.d_count(); ++i) {
      const TileElement p = documented::d(x, thread, i);
      d.set_element(thread, i,
                    tiles.at(static_cast<std::size_t>(p.tile)).d.at(static_cast<std::size_t>(p.row * x.n + p.column)));
    }
}

/// mma.sync.
void issue(const MatrixUnit& unit, const MatrixInstruction& x, Fragments& a, Fragments& b, Fragments& d) {
  std::vector<Tile> tiles(static_cast<std::size_t>(x.tiles()), empty_tile(x));
  for (int thread = 0; thread < x.threads(); ++thread) {
    for (int i = 0; i < x.a_count(); ++i) {
      const TileElement p = documented::a(x, thread, i);
      tiles.at(static_cast<std::size_t>(p.tile)).a.at(static_cast<std::size_t>(p.row * x.k + p.column)) = a.element_of(
          thread, i);
    }
    for (int i = 0; i < x.b_count(); ++i) {
      const TileElement p = documented::b(x, thread, i);
      tiles.at(static_cast<std::size_t>(p.tile)).b.at(static_cast<std::size_t>(p.column * x.k + p.row)) = b.element_of(
          thread, i);
    }
  }
  read_d(x, tiles, d);
  for (Tile& t : tiles) multiply(unit, x, t);
  write_d(x, tiles, d);
}

/// wgmma.mma_async and the wait for it.
void issue(const MatrixUnit& unit, const MatrixInstruction& x, const std::vector<unsigned char>& shared,
           std::uint64_t a, std::uint64_t b, Fragments& d) {
  std::vector<Tile> tiles(1, empty_tile(x));
  const auto gather = [&](std::uint64_t descriptor, Element e, int lines, Words& words) {
    const documented::Descriptor matrix = documented::fields(descriptor);
    for (int line = 0; line < lines; ++line)
      for (int i = 0; i < x.k; ++i) {
        std::uint64_t word = 0;
        for (int byte = 0; byte < bytes_of(e); ++byte)
          word |= std::uint64_t{shared.at(documented::address(matrix, line, i * bytes_of(e) + byte))} << (8 * byte);
        words[static_cast<std::size_t>(line * x.k + i)] = word;
      }
  };
  gather(a, x.a, x.m, tiles[0].a);
  gather(b, x.b, x.n, tiles[0].b);
  read_d(x, tiles, d);
  multiply(unit, x, tiles[0]);
  write_d(x, tiles, d);
}

/// What a warp(group) of the kernels does for tiles from `tile` on.
class Threads {
 public:
  Threads(const MatrixRow& row, const MatrixArgs& args, std::size_t leaves_out, std::size_t tile)
      : unit_(*row.unit),
        x_(row.made_of()),
        args_(args),
        leaves_out_(leaves_out),
        tile_(tile),
        d_(x_.d, x_.d_count(), x_.threads()) {}

  void run() {
    each([&](const Position& at) { load_c(x_, at, d_.of(at.thread), from(args_.c, x_.d)); });
    for (std::size_t step = 0; step < args_.steps; ++step)
      x_.kind == MatrixKind::mma ? from_registers(step) : from_shared(step);
    each([&](const Position& at) {
      store_d(x_, at, d_.of(at.thread), [&](std::size_t index, std::uint64_t word) {
        if (leaves_out_ == 0 || (index + 1) % leaves_out_ != 0) args_.d[index] = word;
      });
    });
  }

 private:
  template <class F>
  void each(F f) const {
    for (int thread = 0; thread < x_.threads(); ++thread) f(Position{{args_.steps, args_.whole}, tile_, thread});
  }

  void from_registers(std::size_t step) {
    Fragments a(x_.a, x_.a_count(), x_.threads()), b(x_.b, x_.b_count(), x_.threads());
    each([&](const Position& at) {
      load_a(x_, at, step, a.of(at.thread), from(args_.a, x_.a));
      load_b(x_, at, step, b.of(at.thread), from(args_.b, x_.b));
    });
    issue(unit_, x_, a, b, d_);
  }

  void from_shared(std::size_t step) {
    constexpr std::uint32_t at_a = 1024;  // some place in shared memory
    const std::uint32_t at_b = at_a + static_cast<std::uint32_t>(shared_bytes(x_.m));
    std::vector<unsigned char> shared(at_b + static_cast<std::size_t>(shared_bytes(x_.n)));
    each([&](const Position& at) {
      share_a(x_, at, step, from(args_.a, x_.a), to(shared.data() + at_a, x_.a));
      share_b(x_, at, step, from(args_.b, x_.b), to(shared.data() + at_b, x_.b));
    });
    issue(unit_, x_, shared, descriptor(at_a), descriptor(at_b), d_);
  }

  const MatrixUnit& unit_;
  const MatrixInstruction& x_;
  const MatrixArgs& args_;
  std::size_t leaves_out_, tile_;
  Fragments d_;
};

}  // namespace

void rehearse_matrix(std::size_t row, const MatrixArgs& args, std::size_t leaves_out) {
  const MatrixRow& of = matrix_rows()[row];
  const auto each = static_cast<std::size_t>(of.made_of().tiles());
  if (args.tiles % each != 0 || args.steps == 0)
    throw std::logic_error("tiles that no whole number of instructions multiplies");
  for (std::size_t tile = 0; tile < args.tiles; tile += each) Threads(of, args, leaves_out, tile).run();
}

}  // namespace halfulp::cuda
