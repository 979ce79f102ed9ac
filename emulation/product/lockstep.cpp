#include <halfulp/emulation/product/lockstep.hpp>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/steps.hpp>
#include <halfulp/emulation/product/tiles.hpp>

#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp::products {
namespace {

using array::Steps;

/// A code word of each output.
template <class Code>
struct Lanes {
  alignas(64) Code at[Steps<Code>::longest];
};

/// What all stages of an engine share: how many outputs there are, and what their roundings draw.
class Outputs {
 public:
  explicit Outputs(std::uint64_t seed) : seed_(seed) {}
  void begin(std::uint64_t first_stream, std::size_t count) {
    first_stream_ = first_stream, count_ = count, block_ = ~std::uint64_t{0};
  }
  std::size_t count() const { return count_; }
  /// What the k-th rounding of each output draws. Valid until another block of four is asked for.
  const std::uint32_t* random(std::uint64_t k) {
    if (k / 4 != block_) {
      block_ = k / 4;
      words_.resize(4 * count_);
      array::stream_words(seed_, first_stream_, block_, count_, words_.data());
    }
    return words_.data() + k % 4 * count_;
  }

 private:
  std::uint64_t seed_, first_stream_ = 0, block_ = 0;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> words_;
};

/// The arithmetic of a stage, for DotEngine.
template <class Code>
class StageInStep {
 public:
  using Word = Lanes<Code>;
  StageInStep(const FloatFormat& f, const Rounding& rounding, Outputs* outputs)
      : f_(f), steps_(f, rounding), outputs_(outputs) {}

  const std::uint32_t* random(std::uint64_t k) { return outputs_->random(k); }
  Word zero() const {
    Word w;
    std::fill_n(w.at, outputs_->count(), static_cast<Code>(f_.zero()));
    return w;
  }
  Word add(const Word& a, const Word& b, const std::uint32_t* random) const {
    return run(Operation::add, a, b, nullptr, random);
  }
  Word sub(const Word& a, const Word& b, const std::uint32_t* random) const {
    return run(Operation::sub, a, b, nullptr, random);
  }
  Word mul(const Word& a, const Word& b, const std::uint32_t* random) const {
    return run(Operation::mul, a, b, nullptr, random);
  }
  Word fma(const Word& a, const Word& b, const Word& c, const std::uint32_t* random) const {
    return run(Operation::fma, a, b, c.at, random);
  }
  Word convert_from(const FloatFormat& from, const Word& code, const std::uint32_t* random) const {
    Word w;
    steps_.convert_from(from, code.at, w.at, outputs_->count(), random);
    return w;
  }
  std::pair<Word, Word> by_magnitude(const Word& x, const Word& y) const {
    std::pair<Word, Word> sorted;
    for (std::size_t i = 0; i < outputs_->count(); ++i) {
      const bool first = f_.magnitude(x.at[i]) >= f_.magnitude(y.at[i]);
      sorted.first.at[i] = first ? x.at[i] : y.at[i];
      sorted.second.at[i] = first ? y.at[i] : x.at[i];
    }
    return sorted;
  }

 private:
  Word run(Operation operation, const Word& a, const Word& b, const Code* c, const std::uint32_t* random) const {
    Word w;
    steps_(operation, a.at, b.at, c, w.at, outputs_->count(), random);
    return w;
  }

  FloatFormat f_;
  Steps<Code> steps_;
  Outputs* outputs_;
};

template <class Code>
struct Engine {
  explicit Engine(const DotModel& model)
      : outputs(model.seed),
        on(model, [&](const FloatFormat& f, const Rounding& r) { return StageInStep<Code>(f, r, &outputs); }) {}
  Engine(const Engine&) = delete;
  Outputs outputs;
  DotEngine<StageInStep<Code>> on;
};

template <class Code, class Words, class D>
void gemm_of(const DotModel& model, const MatrixOperands<Words>& x, std::span<D> d, std::uint64_t first_stream) {
  const auto packed = [](const Words& words, const FloatFormat& f, std::size_t rows, std::size_t columns,
                         const Placement& place) {
    std::vector<Code> codes(rows * columns);
    tbb::parallel_for(std::size_t{0}, rows, [&](std::size_t i) {
      for (std::size_t j = 0; j < columns; ++j) codes[i * columns + j] = static_cast<Code>(word(words, f, place(i, j)));
    });
    return codes;
  };
  const std::vector<Code> a = packed(x.a, model.input, x.m, x.k, x.place_a()),
                          b = packed(x.b, model.second(), x.k, x.n, x.place_b());

  // Outputs in the order of their streams; a piece of them may begin and end inside rows.
  const auto piece = [&](std::size_t begin, std::size_t count, Engine<Code>& engine) {
    engine.outputs.begin(first_stream + begin, count);
    const auto rows = [&](auto f) {  // f(row, first column, columns, place in the piece)
      for (std::size_t at = 0; at < count;) {
        const std::size_t i = (begin + at) / x.n, j = (begin + at) % x.n, size = std::min(x.n - j, count - at);
        f(i, j, size, at);
        at += size;
      }
    };
    const auto first = [&](std::size_t k) {
      Lanes<Code> w;
      rows([&](std::size_t i, std::size_t, std::size_t size, std::size_t at) {
        std::fill_n(w.at + at, size, a[i * x.k + k]);
      });
      return w;
    };
    const auto second = [&](std::size_t k) {
      Lanes<Code> w;
      rows([&](std::size_t, std::size_t j, std::size_t size, std::size_t at) {
        std::copy_n(b.data() + k * x.n + j, size, w.at + at);
      });
      return w;
    };
    std::optional<Lanes<Code>> c;
    if (x.c.size() != 0) {
      c.emplace();
      for (std::size_t o = 0; o < count; ++o)
        c->at[o] = static_cast<Code>(word(x.c, model.result(), x.place_c()((begin + o) / x.n, (begin + o) % x.n)));
    }
    const Lanes<Code> results = engine.on.dot_of(x.k, first, second, c);
    for (std::size_t o = 0; o < count; ++o) {
      D& to = d[x.place_d()((begin + o) / x.n, (begin + o) % x.n)];
      if constexpr (std::is_same_v<D, float>) to = value_of(model.result(), results.at[o]);
      else to = static_cast<D>(results.at[o]);
    }
  };
  // Pieces as long as an array kernel takes, or shorter, so that every thread has some.
  const std::size_t outputs = x.m * x.n, size = std::clamp<std::size_t>(outputs / 16, 64, Steps<Code>::longest);
  tbb::enumerable_thread_specific<Engine<Code>> engines([&] { return Engine<Code>(model); });
  tbb::parallel_for(std::size_t{0}, (outputs + size - 1) / size, [&](std::size_t i) {
    const array::DefaultEnvironment environment;
    piece(i * size, std::min(size, outputs - i * size), engines.local());
  });
}

/// Bits of the widest code words.
int widest(const DotModel& m) {
  int bits = std::max({m.input.storage_bits(), m.second().storage_bits(), m.accumulator.format.storage_bits(),
                       m.outer().format.storage_bits(), m.result().storage_bits()});
  if (m.product) bits = std::max(bits, m.product->format.storage_bits());
  return bits;
}

}  // namespace

bool goes_in_step(const DotModel& model, std::size_t m, std::size_t n, std::size_t k) {
  return widest(model) <= 32 && m * n >= 16 && m * n * k >= 4096;
}

template <class Words, class D>
void gemm_in_step(const DotModel& model, const MatrixOperands<Words>& x, std::span<D> d, std::uint64_t first_stream) {
  const int bits = widest(model);
  if (bits <= 8) gemm_of<std::uint8_t>(model, x, d, first_stream);
  else if (bits <= 16) gemm_of<std::uint16_t>(model, x, d, first_stream);
  else gemm_of<std::uint32_t>(model, x, d, first_stream);
}

#define HALFULP_WORDS(D) template void gemm_in_step(const DotModel&, const GemmOperands&, std::span<D>, std::uint64_t);
HALFULP_WORDS(std::uint8_t)
HALFULP_WORDS(std::uint16_t)
HALFULP_WORDS(std::uint32_t)
HALFULP_WORDS(std::uint64_t)
#undef HALFULP_WORDS
template void gemm_in_step(const DotModel&, const FloatOperands&, std::span<float>, std::uint64_t);

}  // namespace halfulp::products
