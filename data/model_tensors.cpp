#include <halfulp/data/model_tensors.hpp>

#include <halfulp/support/files.hpp>

#include <map>
#include <set>
#include <string_view>

namespace halfulp {

void ModelTensor::read(std::uint64_t first, std::span<double> values) const {
  files->read_bytes(*plain, first * sizeof(double), std::as_writable_bytes(values));
}

void ModelTensor::read(std::uint64_t first, std::span<float> values, RoundingMode doubles) const {
  if (plain) return files->read(*plain, first, values, doubles);
  const std::uint64_t columns = shape.empty() ? 1 : shape.back();
  if (columns) read_rows(*files, *encoded, first / columns, values.size() / columns, values);
}

ModelTensors::ModelTensors(const std::string& path) : files_(path), encoded_(find_encoded(files_)) {
  std::map<const StoredTensor*, const EncodedTensor*> by_codes;
  std::set<const StoredTensor*> parts;
  for (const EncodedTensor& encoded : encoded_) {
    by_codes[encoded.parts.front()] = &encoded;
    parts.insert(encoded.parts.begin(), encoded.parts.end());
  }
  for (const StoredTensor& tensor : files_.tensors()) {
    if (const auto found = by_codes.find(&tensor); found != by_codes.end()) {
      const EncodedTensor& e = *found->second;
      tensors_.push_back({e.name, e.shape, e.count, e.bytes, nullptr, &e, &files_});
    } else if (!parts.contains(&tensor)) {
      if (tensor.type->format)
        tensors_.push_back({tensor.name, tensor.shape, tensor.count, tensor.bytes, &tensor, nullptr, &files_});
      else others_.push_back(&tensor);
    }
  }
  std::set<std::string_view> names;
  for (const ModelTensor& tensor : tensors_)
    if (!names.insert(tensor.name).second)
      refuse_file(path, "tensor " + shown_name(tensor.name) + " is there both as floats and as code words with scales");
}

}  // namespace halfulp
