#include "headrace/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "nn/files/byte_reader.h"
#include "nn/files/mapped_file.h"

namespace headrace {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // bytes; the limit of the reference reader
constexpr const char* kSupported = "F32, BF16, F16, I64, U8";

// Bytes of one value, 0 for a type that is not supported.
std::uint64_t value_bytes(const std::string& dtype) {
  if (dtype == "F32") return 4;
  if (dtype == "BF16" || dtype == "F16") return 2;
  if (dtype == "I64") return 8;
  return dtype == "U8" ? 1 : 0;
}

// Bytes of a tensor of this type and shape; nothing where that is impossible.
std::optional<std::uint64_t> tensor_bytes(const std::string& dtype,
                                          const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = value_bytes(dtype);
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes))
      return std::nullopt;
  return bytes;
}

SafeTensor read_entry(const std::string& name, const Json& entry, std::span<const std::byte> data,
                      const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorCode::bad_input, "{}: tensor {}: {}", path, printable(name), what);
  };
  const auto numbers = [&](const char* key) {
    std::vector<std::int64_t> values;
    if (!entry.contains(key) || !entry[key].is_array())
      refuse(fmt::format("{} is not a list", key));
    for (const Json& value : entry[key]) {
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() >> 63 != 0)
        refuse(fmt::format("{} holds something other than sizes", key));
      values.push_back(value.get<std::int64_t>());
    }
    return values;
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string())
    refuse("it has no dtype");
  SafeTensor tensor{name, entry["dtype"].get<std::string>(), numbers("shape")};
  if (value_bytes(tensor.dtype) == 0)
    refuse(fmt::format("dtype {} is not supported; supported are {}", printable(tensor.dtype),
                       kSupported));
  const auto offsets = numbers("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<std::uint64_t>(offsets[1]) > data.size())
    refuse(fmt::format("data_offsets [{}] do not lie in the {} bytes of data (truncated?)",
                       fmt::join(offsets, ", "), data.size()));
  tensor.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
  if (tensor_bytes(tensor.dtype, tensor.shape) != tensor.bytes)
    refuse(fmt::format("{} [{}] does not take the {} bytes of its data_offsets", tensor.dtype,
                       fmt::join(tensor.shape, ", "), tensor.bytes));
  tensor.data = data.data() + offsets[0];
  return tensor;
}

// The format allows neither holes nor overlaps: the tensors are the data, one after another.
void check_coverage(const std::map<std::string, SafeTensor>& tensors,
                    std::span<const std::byte> data, const std::string& path) {
  std::vector<std::pair<const std::byte*, std::uint64_t>> extents;
  for (const auto& [name, tensor] : tensors) extents.emplace_back(tensor.data, tensor.bytes);
  std::sort(extents.begin(), extents.end());
  const std::byte* end = data.data();
  for (const auto& [begin, bytes] : extents) {
    if (begin != end)
      fail(ErrorCode::bad_input, "{}: the data has a hole or an overlap at {}", path,
           std::min(begin, end) - data.data());
    end = begin + bytes;
  }
  if (end != data.data() + data.size())
    fail(ErrorCode::bad_input, "{}: {} bytes of data belong to no tensor", path,
         data.data() + data.size() - end);
}

std::string header_of(const std::vector<const SafeTensor*>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const SafeTensor* tensor : tensors) {
    if (value_bytes(tensor->dtype) == 0 ||
        tensor_bytes(tensor->dtype, tensor->shape) != tensor->bytes)
      fail(ErrorCode::internal, "tensor {}: {} bytes do not fit {} [{}]", tensor->name,
           tensor->bytes, tensor->dtype, fmt::join(tensor->shape, ", "));
    if (header.contains(tensor->name))
      fail(ErrorCode::internal, "tensor {} is to be written twice", tensor->name);
    header[tensor->name] = {{"dtype", tensor->dtype},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->bytes}}};
    offset += tensor->bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  return text;
}

}  // namespace

struct SafeTensorsFile::Data {
  explicit Data(const std::string& file_path) : path(file_path), file(file_path) {}

  std::string path;
  MappedFile file;
  std::map<std::string, SafeTensor> tensors;
  std::map<std::string, std::string> metadata;
};

SafeTensorsFile SafeTensorsFile::open(const std::string& path) {
  auto file = std::make_shared<Data>(path);
  const std::span<const std::byte> bytes = file->file.bytes();
  ByteReader in(bytes, file->path);
  const std::uint64_t length = in.count(1, "the header's length");
  if (length > kLongestHeader)
    in.refuse_at(0, "a header of {} bytes; at most {} are read", length, kLongestHeader);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + in.offset(), length);
  const auto data = bytes.subspan(in.offset() + length);

  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object()) in.refuse("the header is not a JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      file->tensors.emplace(name, read_entry(name, entry, data, file->path));
      continue;
    }
    if (!entry.is_object()) in.refuse("__metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) in.refuse("__metadata__ {} is not a string", printable(key));
      file->metadata.emplace(key, value.get<std::string>());
    }
  }
  check_coverage(file->tensors, data, file->path);

  SafeTensorsFile opened;
  opened.data_ = std::move(file);
  return opened;
}

const std::map<std::string, SafeTensor>& SafeTensorsFile::tensors() const {
  return data_->tensors;
}

const std::map<std::string, std::string>& SafeTensorsFile::metadata() const {
  return data_->metadata;
}

const SafeTensor& SafeTensorsFile::tensor(const std::string& name) const {
  const auto found = data_->tensors.find(name);
  if (found == data_->tensors.end())
    fail(ErrorCode::bad_input, "{}: the tensor {} is missing", data_->path, printable(name));
  return found->second;
}

void write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const SafeTensor*> ordered;
  for (const SafeTensor& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(),
            [](const SafeTensor* a, const SafeTensor* b) { return a->name < b->name; });
  const std::string header = header_of(ordered, metadata);
  const std::uint64_t length = header.size();

  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) fail(ErrorCode::io, "{}: cannot be created: {}", path, std::strerror(errno));
  bool good = std::fwrite(&length, sizeof(length), 1, file) == 1 &&
              std::fwrite(header.data(), 1, header.size(), file) == header.size();
  for (const SafeTensor* tensor : ordered)
    good = good && std::fwrite(tensor->data, 1, tensor->bytes, file) == tensor->bytes;
  good = good && std::fflush(file) == 0 && ::fsync(::fileno(file)) == 0;
  int error = good ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error != 0) fail(ErrorCode::io, "{}: cannot be written: {}", path, std::strerror(error));
}

}  // namespace headrace
