#include "headrace/gguf.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "nn/files/byte_reader.h"
#include "nn/files/ggml_types.h"
#include "nn/files/mapped_file.h"

namespace headrace {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kLongestKey = 65535;  // as the format says
constexpr std::uint64_t kLongestArray = 1ull
                                        << 24;  // values: bounds what hostile metadata can take
constexpr std::uint32_t kMostDimensions = 4;

enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

// The fewest bytes a value of this type takes; 0 for a type that GGUF does not have.
std::uint64_t smallest(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
    case ValueType::string:
      return 8;
    case ValueType::array:
      return 12;
  }
  return 0;
}

bool read_bool(ByteReader& in) {
  const auto value = in.read<std::uint8_t>("a boolean");
  if (value > 1) in.refuse("a boolean is {}, not 0 or 1", value);
  return value == 1;
}

GgufValue read_scalar(ByteReader& in, ValueType type) {
  const char* what = "a metadata value";
  switch (type) {
    case ValueType::u8:
      return std::uint64_t{in.read<std::uint8_t>(what)};
    case ValueType::u16:
      return std::uint64_t{in.read<std::uint16_t>(what)};
    case ValueType::u32:
      return std::uint64_t{in.read<std::uint32_t>(what)};
    case ValueType::u64:
      return in.read<std::uint64_t>(what);
    case ValueType::i8:
      return std::int64_t{in.read<std::int8_t>(what)};
    case ValueType::i16:
      return std::int64_t{in.read<std::int16_t>(what)};
    case ValueType::i32:
      return std::int64_t{in.read<std::int32_t>(what)};
    case ValueType::i64:
      return in.read<std::int64_t>(what);
    case ValueType::f32:
      return double{in.read<float>(what)};
    case ValueType::f64:
      return in.read<double>(what);
    case ValueType::boolean:
      return read_bool(in);
    case ValueType::string:
      return std::string(in.text("a metadata string"));
    case ValueType::array:
      break;
  }
  in.refuse("metadata has values of type {}, which GGUF does not have",
            static_cast<std::uint32_t>(type));
}

std::int64_t to_signed(const GgufValue& value, const ByteReader& in) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1 : 0;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  const auto number = std::get<std::uint64_t>(value);
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    in.refuse("an array holds {}, more than 63 bits", number);
  return static_cast<std::int64_t>(number);
}

GgufValue read_array(ByteReader& in) {
  const auto type = static_cast<ValueType>(in.read<std::uint32_t>("an array's type"));
  if (type == ValueType::array) in.refuse("nested arrays are not supported");
  const std::uint64_t least = smallest(type);
  if (least == 0)
    in.refuse("an array has values of type {}, which GGUF does not have",
              static_cast<std::uint32_t>(type));
  const std::uint64_t n = in.count(least, "an array's length");
  if (n > kLongestArray) in.refuse("an array of {} values; at most {} are read", n, kLongestArray);

  const auto fill = [&](auto values, auto&& next) -> GgufValue {
    values.reserve(n);
    for (std::uint64_t i = 0; i < n; ++i) values.push_back(next(read_scalar(in, type)));
    return values;
  };
  if (type == ValueType::string)
    return fill(std::vector<std::string>{},
                [](GgufValue value) { return std::get<std::string>(std::move(value)); });
  if (type == ValueType::f32 || type == ValueType::f64)
    return fill(std::vector<double>{},
                [](const GgufValue& value) { return std::get<double>(value); });
  return fill(std::vector<std::int64_t>{},
              [&](const GgufValue& value) { return to_signed(value, in); });
}

std::map<std::string, GgufValue> read_metadata(ByteReader& in, std::uint64_t entries) {
  std::map<std::string, GgufValue> metadata;
  for (std::uint64_t i = 0; i < entries; ++i) {
    const std::uint64_t at = in.offset();
    const std::string_view key = in.text("a metadata key");
    if (key.size() > kLongestKey)
      in.refuse_at(at, "a metadata key of {} bytes; at most {} are allowed", key.size(),
                   kLongestKey);
    const auto type = static_cast<ValueType>(in.read<std::uint32_t>("a value's type"));
    GgufValue value = type == ValueType::array ? read_array(in) : read_scalar(in, type);
    if (!metadata.emplace(key, std::move(value)).second)
      in.refuse_at(at, "the metadata key {} stands twice", printable(key));
  }
  return metadata;
}

// A tensor whose data lies `offset` bytes into the data section.
struct Described {
  GgufTensor tensor;
  std::uint64_t offset = 0;
};

Described read_tensor(ByteReader& in) {
  Described read;
  GgufTensor& tensor = read.tensor;
  const std::uint64_t at = in.offset();
  tensor.name = in.text("a tensor's name");
  const std::string name = printable(tensor.name);

  const auto dimensions = in.read<std::uint32_t>("a tensor's number of dimensions");
  if (dimensions == 0 || dimensions > kMostDimensions)
    in.refuse_at(at, "tensor {} has {} dimensions, not 1 to {}", name, dimensions, kMostDimensions);
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < dimensions; ++d) {
    const auto size = in.read<std::uint64_t>("a tensor's size");
    // A tensor of more than 2^48 values fits no file, so the bytes below cannot overflow.
    if (size == 0 || size > (1ull << 48) / elements)
      in.refuse_at(at, "tensor {}: dimension {} of size {} is impossible", name, d, size);
    elements *= size;
    tensor.shape.insert(tensor.shape.begin(), size);
  }

  const auto raw = in.read<std::uint32_t>("a tensor's type");
  const auto type = supported_type(raw);
  if (!type)
    in.refuse_at(at, "tensor {} is of type {}, which is not supported; supported are {}", name,
                 type_name(raw), kSupportedTypes);
  tensor.type = *type;
  const GgmlBlock block = block_of(*type);
  if (tensor.shape.back() % block.values != 0)
    in.refuse_at(at, "tensor {}: rows of {} values are no whole {} blocks of {}", name,
                 tensor.shape.back(), type_name(raw), block.values);
  tensor.bytes = elements / block.values * block.bytes;
  read.offset = in.read<std::uint64_t>("a tensor's offset");
  return read;
}

std::uint64_t alignment_of(const std::map<std::string, GgufValue>& metadata, const ByteReader& in) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return 32;
  const auto* value = std::get_if<std::uint64_t>(&found->second);
  if (value == nullptr || !std::has_single_bit(*value) || *value > (1ull << 30))
    in.refuse("general.alignment is not a power of two up to 2^30");
  return *value;
}

// Sets where each tensor's data lies, and checks that it lies in the file and that no two overlap.
std::vector<GgufTensor> place(std::vector<Described> read, std::span<const std::byte> file,
                              std::uint64_t alignment, const ByteReader& in) {
  const std::uint64_t start = (in.offset() + alignment - 1) / alignment * alignment;
  const std::uint64_t size = start < file.size() ? file.size() - start : 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents;  // first byte, end
  std::vector<GgufTensor> tensors;
  for (auto& [tensor, offset] : read) {
    if (offset % alignment != 0)
      in.refuse("tensor {}: its offset {} is not a multiple of the alignment {}",
                printable(tensor.name), offset, alignment);
    if (offset > size || tensor.bytes > size - offset)
      in.refuse(
          "tensor {}: its {} bytes at {} of the data leave the file, whose data has {} "
          "(truncated?)",
          printable(tensor.name), tensor.bytes, offset, size);
    tensor.data = file.data() + start + offset;
    extents.emplace_back(offset, offset + tensor.bytes);
    tensors.push_back(std::move(tensor));
  }
  std::sort(extents.begin(), extents.end());
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].first < extents[i - 1].second)
      in.refuse("two tensors overlap at {} of the data", extents[i].first);
  return tensors;
}

}  // namespace

struct GgufFile::Data {
  explicit Data(const std::string& file_path) : path(file_path), file(file_path) {}

  std::string path;
  MappedFile file;
  std::map<std::string, GgufValue> metadata;
  std::vector<GgufTensor> tensors;
  std::unordered_map<std::string_view, std::size_t> index;  // of a tensor, by name
};

std::uint64_t GgufTensor::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t size : shape) product *= size;
  return product;
}

GgufFile GgufFile::open(const std::string& path) {
  auto data = std::make_shared<Data>(path);
  ByteReader in(data->file.bytes(), data->path);
  if (const auto magic = in.read<std::uint32_t>("the magic number"); magic != kMagic)
    in.refuse_at(0, "not a GGUF file: it begins with {:#010x}, not \"GGUF\"", magic);
  const auto version = in.read<std::uint32_t>("the version");
  if (version != 2 && version != 3)
    in.refuse_at(4, "GGUF version {} is not supported (2 and 3 are){}", version,
                 (version & 0xffff) == 0 ? "; the file is big-endian" : "");
  // A tensor takes a name's length, a count, one size, a type and an offset; an entry a key's
  // length, a type and one byte.
  const std::uint64_t tensors = in.count(32, "the number of tensors");
  const std::uint64_t entries = in.count(13, "the number of metadata entries");
  data->metadata = read_metadata(in, entries);

  std::vector<Described> read;
  read.reserve(std::min(tensors, in.remaining() / 32));
  for (std::uint64_t i = 0; i < tensors; ++i) read.push_back(read_tensor(in));
  data->tensors = place(std::move(read), data->file.bytes(), alignment_of(data->metadata, in), in);
  for (std::size_t i = 0; i < data->tensors.size(); ++i)
    if (!data->index.emplace(data->tensors[i].name, i).second)
      in.refuse("the tensor {} stands twice", printable(data->tensors[i].name));

  GgufFile file;
  file.data_ = std::move(data);
  return file;
}

const std::string& GgufFile::path() const {
  return data_->path;
}
const std::map<std::string, GgufValue>& GgufFile::metadata() const {
  return data_->metadata;
}
const std::vector<GgufTensor>& GgufFile::tensors() const {
  return data_->tensors;
}
bool GgufFile::has(const std::string& key) const {
  return data_->metadata.count(key) > 0;
}

namespace {

const GgufValue& value_of(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail(ErrorCode::bad_input, "{}: the metadata key {} is missing", file.path(), key);
  return found->second;
}

template <typename T>
const T& typed(const GgufFile& file, const std::string& key, const char* what) {
  const auto* value = std::get_if<T>(&value_of(file, key));
  if (value == nullptr)
    fail(ErrorCode::bad_input, "{}: the metadata key {} is not {}", file.path(), key, what);
  return *value;
}

}  // namespace

std::uint64_t GgufFile::integer(const std::string& key) const {
  const auto* number = std::get_if<std::int64_t>(&value_of(*this, key));
  if (number != nullptr && *number >= 0) return static_cast<std::uint64_t>(*number);
  return typed<std::uint64_t>(*this, key, "an integer of zero or more");
}

double GgufFile::real(const std::string& key) const {
  return typed<double>(*this, key, "a floating-point number");
}

const std::string& GgufFile::text(const std::string& key) const {
  return typed<std::string>(*this, key, "a string");
}

const std::vector<std::string>& GgufFile::texts(const std::string& key) const {
  return typed<std::vector<std::string>>(*this, key, "an array of strings");
}

const GgufTensor& GgufFile::tensor(const std::string& name) const {
  const auto found = data_->index.find(name);
  if (found == data_->index.end())
    fail(ErrorCode::bad_input, "{}: the tensor {} is missing", path(), printable(name));
  return data_->tensors[found->second];
}

}  // namespace headrace
