// Tensors in files, which are read one at a time into NumPy's memory.
#include "module.hpp"

#include <halfulp/data/layouts.hpp>
#include <halfulp/data/tensor_files.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace halfulp::python {
namespace {

/// Names from files may hold any byte: what is no UTF-8 becomes a lone surrogate, as in os.fsdecode().
nb::object text_from_file(std::string_view text) {
  PyObject* const made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

/// f() without the GIL; its errors become text that Python can hold.
template <class F>
auto with_clean_errors(F&& f) {
  try {
    const nb::gil_scoped_release released;
    return f();
  } catch (const std::invalid_argument& error) { throw std::invalid_argument(clean(error.what())); }
}

/// What a path holds, for halfulp.Checkpoint. Tensors are numbered in the order of the files.
class CheckpointFiles {
 public:
  explicit CheckpointFiles(const std::string& path) : files_(path) {}
  CheckpointFiles(const CheckpointFiles&) = delete;

  nb::list tensors() const {
    nb::list result;
    for (const StoredTensor& t : files_.tensors()) {
      nb::list shape;
      for (const std::uint64_t size : t.shape) shape.append(size);
      result.append(nb::make_tuple(text_from_file(t.name), t.type->name,
                                   t.type->format ? nb::cast(*t.type->format) : nb::none(), nb::tuple(shape), t.bytes,
                                   text_from_file(files_.files()[t.file].path())));
    }
    return result;
  }

  nb::dict metadata() const {
    nb::dict result;
    for (const auto& [key, value] : files_.metadata()) result[text_from_file(key)] = text_from_file(value);
    return result;
  }

  nb::list encoded() {
    nb::list result;
    for (const EncodedTensor& t : found()) {
      nb::list shape;
      for (const std::uint64_t size : t.shape) shape.append(size);
      result.append(nb::make_tuple(text_from_file(t.name), t.layout->name, t.format, nb::tuple(shape), t.bytes,
                                   t.layout->citation));
    }
    return result;
  }

  void read_encoded(std::size_t index, const Out& out) {
    if (index >= found().size()) throw std::out_of_range("index: there is no such weight");
    const EncodedTensor& t = found()[index];
    const std::span<float> all = write<float>(out);
    if (all.size() != t.count) throw std::invalid_argument("out: of another size than the weight");
    const std::size_t columns = static_cast<std::size_t>(t.shape.back());
    const std::size_t rows = std::max<std::size_t>(1, (std::size_t{1} << 20) / columns);
    with_clean_errors([&] {
      for (std::size_t row = 0, end = all.size() / columns; row < end; row += rows) {
        const std::size_t some = std::min(rows, end - row);
        read_rows(files_, t, row, some, all.subspan(row * columns, some * columns));
        stop_if_asked();
      }
      files_.check_unchanged();
    });
  }

  std::string unknown(const std::string& name) const {
    constexpr std::size_t most = 5;
    std::vector<std::string> names;
    for (const StoredTensor& t : files_.tensors()) names.push_back(clean(t.name));
    return unknown_name("tensor", name, std::move(names), most);
  }

  void read_bytes(std::size_t index, const Out& out) const {
    const StoredTensor& t = tensor(index);
    fill<std::uint8_t>(t, t.bytes, out, [&](std::size_t first, std::span<std::uint8_t> bytes) {
      files_.read_bytes(t, first, std::as_writable_bytes(bytes));
    });
  }

  void read_codes(std::size_t index, const Out& out) const {
    const StoredTensor& t = tensor(index);
    if (t.type->bits > 8) throw std::invalid_argument("index: a tensor of more than 8 bits an element");
    fill<std::uint8_t>(t, t.count, out, [&](std::size_t first, std::span<std::uint8_t> codes) {
      std::vector<std::uint16_t> wide(codes.size());
      files_.read_codes(t, first, wide);
      std::ranges::transform(wide, codes.begin(), [](std::uint16_t code) { return static_cast<std::uint8_t>(code); });
    });
  }

  void read_values(std::size_t index, const Out& out) const {
    const StoredTensor& t = tensor(index);
    if (!t.type->format) throw std::invalid_argument("index: a tensor that is not of floats");
    fill<float>(t, t.count, out, [&](std::size_t first, std::span<float> values) { files_.read(t, first, values); });
  }

 private:
  const StoredTensor& tensor(std::size_t index) const {
    if (index >= files_.tensors().size()) throw std::out_of_range("index: there is no such tensor");
    return files_.tensors()[index];
  }

  /// Fills an array of `count` by `read(first, some of it)`, and notices Ctrl-C between pieces.
  template <class T, class Read>
  void fill(const StoredTensor& tensor, std::uint64_t count, const Out& out, Read read) const {
    constexpr std::size_t piece = std::size_t{1} << 22;
    const std::span<T> all = write<T>(out);
    if (all.size() != count) throw std::invalid_argument("out: of another size than the tensor");
    with_clean_errors([&] {
      for (std::size_t first = 0; first < all.size(); first += piece) {
        read(first, all.subspan(first, std::min(piece, all.size() - first)));
        stop_if_asked();
      }
      files_.files()[tensor.file].check_unchanged();
    });
  }

  const std::vector<EncodedTensor>& found() {
    if (!encoded_) {
      std::vector<EncodedTensor> all = with_clean_errors([&] { return find_encoded(files_); });
      if (!encoded_) encoded_ = std::move(all);  // another thread may have been faster
    }
    return *encoded_;
  }

  TensorFiles files_;
  std::optional<std::vector<EncodedTensor>> encoded_;  ///< once it was asked for
};

}  // namespace

void add_checkpoints(nb::module_& m) {
  nb::class_<CheckpointFiles>(m, "CheckpointFiles", "What halfulp.Checkpoint reads from. Tensors go by their index.")
      .def(
          "__init__",
          [](CheckpointFiles* self, const nb::object& path) {
            const std::string name = text_of(path, "path");
            if (name.find('\0') != std::string::npos)
              throw std::invalid_argument("path: a file's name with a NUL character");
            with_clean_errors([&] { new (self) CheckpointFiles(name); });
          },
          nb::arg("path"), nb::sig("def __init__(self, path: str) -> None"), "Reads headers only.")
      .def("tensors", &CheckpointFiles::tensors,
           nb::sig("def tensors(self) -> list[tuple[str, str, Format | None, tuple[int, ...], int, str]]"),
           "Name, dtype as safetensors has it, format of floats, shape, bytes and file of each tensor.")
      .def("encoded", &CheckpointFiles::encoded,
           nb::sig("def encoded(self) -> list[tuple[str, str, str, tuple[int, ...], int, str]]"),
           "Name, layout, block format, shape, bytes and citation of each weight of code words and scales.")
      .def("read_encoded", &CheckpointFiles::read_encoded, nb::arg("index"), nb::arg("out"),
           "The values of one of these, in float32.")
      .def("metadata", &CheckpointFiles::metadata, nb::sig("def metadata(self) -> dict[str, str]"),
           "What the headers say besides.")
      .def("unknown", &CheckpointFiles::unknown, nb::arg("name"),
           "What to say of a name that no tensor has, with the nearest spelling.")
      .def("read_bytes", &CheckpointFiles::read_bytes, nb::arg("index"), nb::arg("out"),
           "The bytes of a tensor as they are stored.")
      .def("read_codes", &CheckpointFiles::read_codes, nb::arg("index"), nb::arg("out"),
           "The code words of a tensor of at most 8 bits an element, one in each byte.")
      .def("read_values", &CheckpointFiles::read_values, nb::arg("index"), nb::arg("out"),
           "The values of a tensor of floats, in float32.");
}

}  // namespace halfulp::python
