#include <halfulp/experiments/checkpoint/write.hpp>

#include <halfulp/data/layout_writing.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/experiments/checkpoint/rounding.hpp>
#include <halfulp/experiments/checkpoint/shared.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>

namespace halfulp::checkpoint {
namespace {

constexpr std::uint64_t copied_at_once = std::uint64_t{1} << 22;

/// A digest of values in which all NaN are one.
std::uint64_t digest(std::span<const float> values) {
  thread_local std::vector<std::uint32_t> bits;
  bits.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    bits[i] = std::isnan(values[i]) ? 0x7fc0'0000u : std::bit_cast<std::uint32_t>(values[i]);
  return verify::chunk_digest(std::as_bytes(std::span(bits)));
}

bool have_same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// How one rounded tensor is written.
class TensorWriting {
 public:
  TensorWriting(Rewritten& rewritten, const Destination& to, std::uint64_t stream)
      : out_(rewritten),
        tensor_(*rewritten.tensor),
        rounding_(tensor_, rewritten.format->format, to.rounding, {to.seed, stream, 0}) {
    const BlockFormat* const block = out_.format->block();
    if (to.writer.empty()) {
      const ElementType* const own = tensor_.plain ? tensor_.plain->type : nullptr;
      type_ = to.dtype ? to.dtype : own && own->bits >= 8 ? own : &element_type_of(bf16);
      out_.stored_as = type_->name;
      value_part_.push_back({tensor_.name, type_, tensor_.shape, tensor_.count});
      const auto bytes = stored_bytes(*type_, tensor_.count);
      if (!bytes) throw std::invalid_argument(fmt::format("tensor {}: too large", shown_name(tensor_.name)));
      value_part_.front().bytes = *bytes;
    } else {
      if (!block)
        throw std::invalid_argument(fmt::format(
            "format: {} has no scales, and layouts of {} are of code words with scales; accepted: a block format, such "
            "as e4m3-row, or values instead of a layout",
            out_.format->name, to.writer));
      weight_ = std::make_unique<EncodedWeight>(to.writer, tensor_.name, tensor_.shape, *block,
                                                tensor_.format() ? *tensor_.format() : bf16);
      out_.stored_as = weight_->layout().name, out_.layout = &weight_->layout();
    }
    for (const StoredTensor& part : parts()) out_.bytes += part.bytes;
    digests_.resize(rounding_.parts().size());
  }

  const ModelTensor& tensor() const { return tensor_; }
  std::vector<StoredTensor>& parts() { return weight_ ? weight_->parts() : value_part_; }
  std::string metadata() const { return weight_ ? weight_->metadata() : std::string(); }
  /// Places in the file of its parts, once the header is known.
  std::vector<std::uint64_t> offsets;

  template <class Done>
  void write(LargeFile& file, const Done& done) {
    rounding_.prepare();
    done(tensor_.count);
    struct OfPart {
      Loss loss;
      std::uint64_t again = 0;
      float tensor_scale = 1;
    };
    const std::vector<Part>& parts = rounding_.parts();
    const auto all = parallel_map(parts.size(), [&](std::size_t i) {
      OfPart of;
      tbb::this_task_arena::isolate([&] { write_part(file, i, of.loss, of.again, of.tensor_scale); });
      done(parts[i].elements());
      return of;
    });
    for (const OfPart& of : all) out_.loss.add(of.loss), out_.rounded_again += of.again;
    if (weight_)
      for (const EncodedWeight::Piece& piece : weight_->rest(all.front().tensor_scale, rounding_.amax()))
        file.write(offsets[piece.part] + piece.offset, piece.bytes);
  }

  /// Reads the values back from the new file.
  template <class Done>
  void check(const std::map<std::string_view, const ModelTensor*>& back, const Done& done) {
    const auto found = back.find(tensor_.name);
    const ModelTensor* const again = found == back.end() ? nullptr : found->second;
    if (!again || again->shape != tensor_.shape ||
        (weight_ ? !again->encoded || again->encoded->layout != out_.layout
                 : !again->plain || again->plain->type != type_)) {
      out_.misread = std::max<std::uint64_t>(1, tensor_.count);
      return done(tensor_.count);
    }
    const std::vector<Part>& parts = rounding_.parts();
    const auto misread = parallel_map(parts.size(), [&](std::size_t i) -> std::uint64_t {
      return tbb::this_task_arena::isolate([&] {
        thread_local std::vector<float> values;
        gather(rounding_.view(), parts[i], values, [&](std::uint64_t at, auto some) { again->read(at, some); });
        done(parts[i].elements());
        return digest(values) == digests_[i] ? 0 : parts[i].elements();
      });
    });
    for (const std::uint64_t m : misread) out_.misread += m;
  }

 private:
  void write_part(LargeFile& file, std::size_t index, Loss& loss, std::uint64_t& again, float& tensor_scale) {
    thread_local RoundedPart part;
    const std::uint64_t row = rounding_.first_row(rounding_.parts()[index]);
    if (const auto x = beyond_fp32(tensor_, row * rounding_.view().columns, rounding_.parts()[index].elements()))
      throw std::invalid_argument(fmt::format(
          "tensor {}: {:g} is no float, and tensors are rounded as floats; accepted: to keep it as it is (--keep)",
          shown_name(tensor_.name), *x));
    rounding_.round(rounding_.parts()[index], part);
    tensor_scale = part.array.tensor_scale;
    if (weight_) {
      rounding_.read_as(weight_->layout(), part);
      for (const EncodedWeight::Piece& piece : weight_->pieces(part.array, row))
        file.write(offsets[piece.part] + piece.offset, piece.bytes);
    } else {
      write_values(file, row * rounding_.view().columns, part.after, again);
    }
    add_losses(loss, part);
    digests_[index] = digest(part.after);
  }

  /// Rounds values to the dtype and writes them.
  void write_values(LargeFile& file, std::uint64_t first, std::vector<float>& values, std::uint64_t& again) const {
    thread_local std::vector<float> exact;
    exact = values;
    std::vector<std::byte> bytes;
    const auto as = [&]<class Code>(Code) {
      std::vector<Code> codes(values.size());
      encode<float, Code>(*type_->format, {}, exact, codes);
      decode<Code>(*type_->format, codes, values);
      bytes.resize(codes.size() * sizeof(Code));
      std::memcpy(bytes.data(), codes.data(), bytes.size());
    };
    switch (type_->bits) {
      case 8: as(std::uint8_t{}); break;
      case 16: as(std::uint16_t{}); break;
      case 32: as(std::uint32_t{}); break;
      default: {  // fp64 holds every float
        const std::vector<double> wide(values.begin(), values.end());
        bytes.resize(wide.size() * sizeof(double));
        std::memcpy(bytes.data(), wide.data(), bytes.size());
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) again += !have_same_bits(exact[i], values[i]);
    file.write(offsets.front() + first * static_cast<std::uint64_t>(type_->bits) / 8, bytes);
  }

  Rewritten& out_;
  const ModelTensor& tensor_;
  TensorRounding rounding_;
  const ElementType* type_ = nullptr;
  std::vector<StoredTensor> value_part_;
  std::unique_ptr<EncodedWeight> weight_;
  std::vector<std::uint64_t> digests_;  ///< of the values of each part
};

/// The header's metadata: the checkpoint's own, and torchao's of what is written and of what is no longer there.
std::map<std::string, std::string> metadata_of(const ModelTensors& model, const std::vector<TensorWriting>& writings,
                                               std::string_view writer) {
  std::map<std::string, std::string> metadata = model.files().metadata();
  constexpr const char* names = "tensor_names";  // torchao's list of the tensors that have a member of their own
  if (writer != "torchao" && !metadata.contains(names)) return metadata;
  std::set<std::string> rewritten;
  for (const TensorWriting& w : writings) rewritten.insert(w.tensor().name);
  Json all = Json::array();
  const auto keep = [&](const std::string& name, const std::string& says) {
    metadata[name] = says, all.push_back(name);
  };
  const std::string plain = Json{{"_type", "Tensor"}}.dump();
  for (const ModelTensor& t : model.tensors()) {
    if (rewritten.contains(t.name)) metadata.erase(t.name);
    else keep(t.name, t.encoded && metadata.contains(t.name) ? metadata[t.name] : plain);
  }
  for (const StoredTensor* t : model.others()) keep(t->name, plain);
  for (const TensorWriting& w : writings) keep(w.tensor().name, w.metadata().empty() ? plain : w.metadata());
  metadata[names] = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  return metadata;
}

/// A tensor of the new file: copied, or a part of one that is rounded.
struct Placed {
  StoredTensor stored;
  const StoredTensor* copied = nullptr;
  TensorWriting* writing = nullptr;
  std::size_t part = 0;
};

/// All tensors of the new file, the widest types first, so that each begins at a multiple of its element's size.
std::vector<Placed> placed_tensors(const ModelTensors& model, std::vector<TensorWriting>& writings) {
  std::map<const StoredTensor*, TensorWriting*> replaced;  // the parts of a weight after its first have none
  for (TensorWriting& w : writings) {
    const ModelTensor& t = w.tensor();
    if (t.plain) replaced[t.plain] = &w;
    else
      for (const StoredTensor* part : t.encoded->parts)
        replaced[part] = part == t.encoded->parts.front() ? &w : nullptr;
  }
  std::vector<Placed> all;
  for (const StoredTensor& stored : model.files().tensors()) {
    const auto found = replaced.find(&stored);
    if (found == replaced.end()) {
      all.push_back({stored, &stored, nullptr, 0});
    } else if (TensorWriting* const w = found->second) {
      w->offsets.resize(w->parts().size());
      for (std::size_t i = 0; i < w->parts().size(); ++i) all.push_back({w->parts()[i], nullptr, w, i});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Placed& a, const Placed& b) { return a.stored.type->bits > b.stored.type->bits; });
  std::set<std::string_view> names;
  for (const Placed& p : all)
    if (!names.insert(p.stored.name).second)
      throw std::invalid_argument(
          fmt::format("tensor {}: two tensors of the new file would have this name", shown_name(p.stored.name)));
  return all;
}

/// Calls use(offset in the tensor, bytes) for a tensor in pieces, on all threads.
template <class Use>
std::uint64_t in_pieces(std::uint64_t bytes, Use use) {
  const auto each = parallel_map(ceil_div(bytes, copied_at_once), [&](std::size_t i) -> std::uint64_t {
    return tbb::this_task_arena::isolate([&] {
      const std::uint64_t at = i * copied_at_once;
      return use(at, std::min(copied_at_once, bytes - at));
    });
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t n : each) sum += n;
  return sum;
}

}  // namespace

Copies write_checkpoint(const ModelTensors& model, std::vector<Rewritten>& tensors, const Destination& to,
                        const std::function<void(double share)>& done) {
  std::vector<TensorWriting> writings;
  writings.reserve(tensors.size());
  for (Rewritten& t : tensors)
    writings.emplace_back(t, to, static_cast<std::uint64_t>(t.tensor - model.tensors().data()));
  std::vector<Placed> placed = placed_tensors(model, writings);
  std::vector<StoredTensor> stored;
  for (const Placed& p : placed) stored.push_back(p.stored);
  const std::string header = safetensors_header(stored, metadata_of(model, writings, to.writer));
  if (header.size() - 8 > longest_safetensors_header)
    throw std::invalid_argument(fmt::format("{}: a header of {} bytes; accepted: at most {}", to.path,
                                            header.size() - 8, longest_safetensors_header));

  Copies copies;
  copies.file = stored.empty() ? header.size() : stored.back().offset + stored.back().bytes;
  double work = 0;  // bytes copied and compared; of rounded tensors what reading, writing and checking take
  for (std::size_t i = 0; i < placed.size(); ++i) {
    placed[i].stored = stored[i];
    if (placed[i].writing) placed[i].writing->offsets[placed[i].part] = stored[i].offset;
    if (placed[i].copied)
      ++copies.tensors, copies.bytes += stored[i].bytes, work += 2 * static_cast<double>(stored[i].bytes);
  }
  for (const Rewritten& t : tensors) work += 3.0 * 4 * static_cast<double>(t.tensor->count);
  const auto advance = [&](double bytes) { done(work > 0 ? bytes / work : 1); };
  const auto rounded = [&](std::uint64_t elements) { advance(4 * static_cast<double>(elements)); };

  LargeFile file(to.path, copies.file);
  file.write(0, std::as_bytes(std::span(header)));
  const auto read = [](const TensorFiles& from, const StoredTensor& tensor, std::uint64_t at, std::uint64_t bytes) {
    std::vector<std::byte> piece(bytes);
    from.read_bytes(tensor, at, piece);
    return piece;
  };
  (void)parallel_map(placed.size(), [&](std::size_t i) {
    const Placed& p = placed[i];
    if (!p.copied) return 0;
    (void)in_pieces(p.stored.bytes, [&](std::uint64_t at, std::uint64_t bytes) -> std::uint64_t {
      file.write(p.stored.offset + at, read(model.files(), *p.copied, at, bytes));
      advance(static_cast<double>(bytes));
      return 0;
    });
    return 0;
  });
  (void)parallel_map(writings.size(), [&](std::size_t i) { return writings[i].write(file, rounded), 0; });
  model.files().check_unchanged();

  const auto reopened = [&] {
    try {
      return std::make_unique<ModelTensors>(file.temporary());
    } catch (const std::invalid_argument& error) {
      std::string why = error.what();
      if (why.starts_with(file.temporary())) why.erase(0, file.temporary().size() + 2);
      throw std::invalid_argument(fmt::format("{} is not written, for it could not be read: {}", to.path, why));
    }
  }();
  const ModelTensors& back = *reopened;
  const auto differing = parallel_map(placed.size(), [&](std::size_t i) -> std::uint64_t {
    const Placed& p = placed[i];
    if (!p.copied) return 0;
    const StoredTensor* const again = back.files().find(p.stored.name);
    if (!again || again->type != p.copied->type || again->shape != p.copied->shape)
      return std::max<std::uint64_t>(1, p.stored.bytes);
    return in_pieces(p.stored.bytes, [&](std::uint64_t at, std::uint64_t bytes) -> std::uint64_t {
      advance(static_cast<double>(bytes));
      const auto was = read(model.files(), *p.copied, at, bytes), is = read(back.files(), *again, at, bytes);
      return std::memcmp(was.data(), is.data(), bytes) == 0 ? 0 : bytes;
    });
  });
  for (const std::uint64_t n : differing) copies.differing += n;
  std::map<std::string_view, const ModelTensor*> by_name;
  for (const ModelTensor& t : back.tensors()) by_name[t.name] = &t;
  (void)parallel_map(writings.size(), [&](std::size_t i) { return writings[i].check(by_name, rounded), 0; });
  model.files().check_unchanged();
  copies.placed = copies.differing == 0 &&
                  std::all_of(tensors.begin(), tensors.end(), [](const Rewritten& t) { return t.misread == 0; });
  if (copies.placed) file.place();
  return copies;
}

}  // namespace halfulp::checkpoint
