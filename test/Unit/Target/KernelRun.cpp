//===- KernelRun.cpp - Compiles a kernel function and runs it -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelRun.h"

#include "base/cpu_features.h"
#include "heddle_rt/packing.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::heddle;

namespace heddle::test {

//===----------------------------------------------------------------------===//
// Text and numbers
//===----------------------------------------------------------------------===//

std::string tensor(std::vector<int64_t> shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

std::string kernel(const std::vector<std::string> &arguments,
                   const std::string &body,
                   const std::vector<std::string> &results,
                   const std::string &attributes) {
  std::string text = "func.func private @k(";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += (i ? ", %" : "%") + std::to_string(i) + ": " + arguments[i];
  text += ") -> (";
  for (size_t i = 0; i < results.size(); ++i)
    text += (i ? ", " : "") + results[i];
  text += ") attributes {heddle.local, heddle.kernel";
  if (!attributes.empty())
    text += ", " + attributes;
  return text + "} {\n" + body + "\n}\n";
}

Numbers randomNumbers(size_t count, uint64_t seed, double scale) {
  std::mt19937_64 engine(seed);
  Numbers values(count);
  for (double &v : values)
    v = scale * (static_cast<double>(engine() >> 11) * 0x1.0p-52 - 1.0);
  return values;
}

int64_t sizeOf(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<int64_t>());
}

/// x86-64-v3 with vectors of twice its lanes, which LLVM splits: the code of
/// wide targets, where there is no AVX-512 to run it.
static constexpr const char *kWideLanes = "16 lanes on x86-64-v3";
static constexpr const char *kNoTiles = "host without tiles";
static constexpr const char *kStreams = "x86-64-v3, past the caches";

static FailureOr<cpu::TargetRecord> targetRecord(const std::string &name) {
  FailureOr<cpu::TargetRecord> record = cpu::TargetRecord::get(
      name == kWideLanes || name == kStreams ? "x86-64-v3"
      : name == kNoTiles                     ? "host"
                                             : name.c_str());
  if (succeeded(record) && name == kStreams)
    record->streamBytes = 0;
  if (succeeded(record) && name == kNoTiles)
    record->amxInt8 = record->amxBf16 = false;
  if (succeeded(record) && name == kWideLanes) {
    record->lanes = 16;
    record->registers = 32;
  }
  return record;
}

std::vector<std::string> runnableTargets() {
  std::vector<std::string> targets = {"x86-64-v3", kWideLanes};
  if (cpu::TargetRecord::host().lanes == 16)
    targets.push_back("x86-64-v4");
  if (cpu::TargetRecord::host().vnni)
    targets.push_back("host");
  return targets;
}

std::string targetWithoutTiles() {
  return cpu::TargetRecord::host().amxInt8 ? kNoTiles : "";
}

std::string targetWithStreams() { return kStreams; }

void expectNear(const Numbers &got, const Numbers &want, double absolute,
                double relative, const std::string &what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  int shown = 0;
  for (size_t i = 0; i < got.size() && shown < 5; ++i) {
    bool near =
        std::isnan(want[i])
            ? std::isnan(got[i])
            : got[i] == want[i] || std::fabs(got[i] - want[i]) <=
                                       absolute + relative * std::fabs(want[i]);
    if (!near) {
      ADD_FAILURE() << what << ": element " << i << " of " << got.size()
                    << ": got " << got[i] << ", want " << want[i];
      ++shown;
    }
  }
}

//===----------------------------------------------------------------------===//
// Stored formats
//===----------------------------------------------------------------------===//

static float halfToFloat(uint16_t bits) {
  double sign = bits & 0x8000 ? -1.0 : 1.0;
  int exponent = bits >> 10 & 31;
  int mantissa = bits & 1023;
  if (exponent == 31)
    return mantissa ? NAN : static_cast<float>(sign * INFINITY);
  return static_cast<float>(
      exponent ? sign * std::ldexp(1024 + mantissa, exponent - 25)
               : sign * std::ldexp(mantissa, -24));
}

/// Nearest, ties to even, by search over neighbours of a truncation.
static uint16_t floatToHalf(float v) {
  if (std::isnan(v))
    return 0x7e00;
  uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  float a = std::fabs(v);
  if (a >= 65520.0f)
    return sign | 0x7c00;
  uint16_t low = 0, high = 0x7bff;
  while (low < high) { // the largest half that is not above a
    uint16_t middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (halfToFloat(middle) <= a)
      low = middle;
    else
      high = static_cast<uint16_t>(middle - 1);
  }
  if (low == 0x7bff)
    return sign | low;
  double below = a - static_cast<double>(halfToFloat(low));
  double above = static_cast<double>(halfToFloat(low + 1)) - a;
  if (above < below || (above == below && (low & 1)))
    ++low;
  return sign | low;
}

static uint16_t floatToBf16(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  if (std::isnan(v))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  uint32_t rest = bits & 0xffff, kept = bits >> 16;
  if (rest > 0x8000 || (rest == 0x8000 && (kept & 1)))
    ++kept;
  return static_cast<uint16_t>(kept);
}

static float bf16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float v;
  std::memcpy(&v, &wide, 4);
  return v;
}

static float halfAt(const uint8_t *p) {
  return halfToFloat(static_cast<uint16_t>(p[0] | p[1] << 8));
}

std::vector<uint8_t> encodeHalves(const std::string &format,
                                  const Numbers &values) {
  std::vector<uint8_t> bytes;
  for (double v : values) {
    float single = static_cast<float>(v);
    uint16_t bits = format == "f16" ? floatToHalf(single) : floatToBf16(single);
    bytes.push_back(static_cast<uint8_t>(bits & 255));
    bytes.push_back(static_cast<uint8_t>(bits >> 8));
  }
  return bytes;
}

Numbers decodeHalves(const std::string &format,
                     const std::vector<uint8_t> &bytes) {
  Numbers values;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    auto bits = static_cast<uint16_t>(bytes[i] | bytes[i + 1] << 8);
    values.push_back(format == "f16" ? halfToFloat(bits) : bf16ToFloat(bits));
  }
  return values;
}

namespace {
struct Format {
  int64_t elements, bytes;
  /// Byte offsets of halves that scale.
  std::vector<int64_t> halves;
};
} // namespace

static Format formatOf(const std::string &name) {
  if (name == "q4_0")
    return {32, 18, {0}};
  if (name == "q4_1")
    return {32, 20, {0, 2}};
  if (name == "q5_0")
    return {32, 22, {0}};
  if (name == "q5_1")
    return {32, 24, {0, 2}};
  if (name == "q8_0")
    return {32, 34, {0}};
  return {256, 210, {208}};
}

double decodeBlockElement(const std::string &format, const uint8_t *row,
                          int64_t i) {
  Format f = formatOf(format);
  const uint8_t *block = row + i / f.elements * f.bytes;
  int64_t j = i % f.elements;
  auto nibble = [&](int64_t offset) {
    uint8_t byte = block[offset + j % 16];
    return j < 16 ? byte & 15 : byte >> 4;
  };
  auto fifth = [&](int64_t offset) {
    return (block[offset + j / 8] >> (j % 8) & 1) * 16;
  };
  double d = halfAt(block);
  if (format == "q4_0")
    return d * (nibble(2) - 8);
  if (format == "q4_1")
    return d * nibble(4) + halfAt(block + 2);
  if (format == "q5_0")
    return d * (nibble(6) + fifth(2) - 16);
  if (format == "q5_1")
    return d * (nibble(8) + fifth(4)) + halfAt(block + 2);
  if (format == "q8_0")
    return d * static_cast<int8_t>(block[2 + j]);
  // q6_k: ql[128], qh[64], scales[16], d.
  d = halfAt(block + 208);
  int64_t half = j / 128, l = j % 32, quarter = j % 128 / 32;
  uint8_t low = block[half * 64 + l + (quarter % 2 ? 32 : 0)];
  low = quarter < 2 ? low & 15 : low >> 4;
  int high = block[128 + half * 32 + l] >> (2 * quarter) & 3;
  int scale = static_cast<int8_t>(block[192 + half * 8 + quarter * 2 + l / 16]);
  return d * scale * ((low | high << 4) - 32);
}

std::vector<uint8_t> randomBlocks(const std::string &format, int64_t rows,
                                  int64_t columns, uint64_t seed) {
  Format f = formatOf(format);
  int64_t blocks = rows * (columns / f.elements);
  std::mt19937_64 engine(seed);
  std::vector<uint8_t> data(blocks * f.bytes);
  for (uint8_t &byte : data)
    byte = static_cast<uint8_t>(engine() >> 40);
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t offset : f.halves) {
      double scale = (static_cast<double>(engine() >> 11) * 0x1.0p-52 - 1.0) *
                     (format == "q6_k" ? 0.001 : 0.05);
      uint16_t bits = floatToHalf(static_cast<float>(scale));
      data[b * f.bytes + offset] = static_cast<uint8_t>(bits & 255);
      data[b * f.bytes + offset + 1] = static_cast<uint8_t>(bits >> 8);
    }
  return data;
}

Numbers decodeBlocks(const std::string &format,
                     const std::vector<uint8_t> &data, int64_t rows,
                     int64_t columns) {
  Format f = formatOf(format);
  Numbers values;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      values.push_back(decodeBlockElement(
          format, data.data() + r * (columns / f.elements) * f.bytes, c));
  return values;
}

Panels::Panels(const std::string &format, int64_t n, int64_t k, uint64_t seed) {
  bool plain = format == "f16" || format == "bf16";
  type = "tensor<" + std::to_string(n) + "x" + std::to_string(k) + "x" +
         (plain ? "" : "!heddle.") + format +
         ", #heddle.packing<\"panel16@1\">>";
  std::vector<uint8_t> blocks;
  if (plain) {
    Numbers drawn = randomNumbers(static_cast<size_t>(n * k), seed);
    blocks = encodeHalves(format, drawn);
    values = decodeHalves(format, blocks);
  } else {
    blocks = randomBlocks(format, n, k, seed);
    values = decodeBlocks(format, blocks, n, k);
  }
  ::heddle::rt::DType dtype = format == "q8_0"   ? ::heddle::rt::DType::q8_0
                              : format == "q4_0" ? ::heddle::rt::DType::q4_0
                              : format == "q4_1" ? ::heddle::rt::DType::q4_1
                              : format == "f16"  ? ::heddle::rt::DType::f16
                                                 : ::heddle::rt::DType::bf16;
  const ::heddle::rt::Packing &packing =
      *::heddle::rt::findPacking("panel16@1");
  bytes.resize(static_cast<size_t>(packing.bytes(n, k, dtype)));
  packing.pack(blocks.data(), n, k, dtype, bytes.data());
}

std::vector<uint8_t> quantise(const Numbers &x) {
  std::vector<uint8_t> bytes(x.size() / 32 * 48);
  for (size_t block = 0; block < x.size() / 32; ++block) {
    double top = 0;
    for (size_t i = 0; i < 32; ++i)
      top = std::max(top, std::fabs(x[block * 32 + i]));
    float scale = static_cast<float>(top) / 127.0f;
    uint8_t *out = bytes.data() + block * 48;
    int32_t sum = 0;
    for (size_t i = 0; i < 32; ++i) {
      double q = top > 0 ? std::nearbyint(x[block * 32 + i] * (127 / top)) : 0;
      sum += static_cast<int32_t>(q);
      out[16 + i] = static_cast<uint8_t>(static_cast<int8_t>(q));
    }
    std::memcpy(out, &scale, 4);
    std::memcpy(out + 4, &sum, 4);
    float offset = static_cast<float>(sum) * scale;
    std::memcpy(out + 8, &offset, 4);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// KernelRun
//===----------------------------------------------------------------------===//

KernelRun::KernelRun(const std::string &text, const std::string &target) {
  context.loadDialect<HeddleDialect, func::FuncDialect>();
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    ADD_FAILURE() << diagnostic.str();
    return success();
  });
  module = parseSourceString<ModuleOp>(text, &context);
  FailureOr<cpu::TargetRecord> record = targetRecord(target);
  if (!module || failed(record)) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return;
  }
  auto func = module->lookupSymbol<func::FuncOp>("k");
  auto found = cpu::getKernelInterface(func, *record);
  auto emitted = cpu::emitKernels(*module, *record);
  if (failed(found) || failed(emitted))
    return;
  kernelInterface = *found;
  auto object = cpu::compileKernels(**emitted, *record);
  if (failed(object))
    return;

  ::heddle::rt::Status allowed =
      ::heddle::rt::checkCpuFeatures(llvm::join(record->required, ","));
  if (!allowed.ok()) {
    ADD_FAILURE() << allowed.message();
    return;
  }
  file = memfd_create("kernel", MFD_CLOEXEC);
  EXPECT_EQ(write(file, object->data(), object->size()),
            static_cast<ssize_t>(object->size()));
  std::string path = "/proc/self/fd/" + std::to_string(file);
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ADD_FAILURE() << dlerror();
    return;
  }
  function = reinterpret_cast<Function>(dlsym(library, "k"));

  std::vector<Type> types;
  llvm::append_range(types, func.getArgumentTypes());
  std::vector<bool> inPlace(func.getNumResults(), false);
  if (auto aliases =
          func->getAttrOfType<ArrayAttr>(HeddleDialect::kAliasesAttr))
    for (Attribute pair : aliases)
      inPlace[cast<DenseI64ArrayAttr>(pair)[0]] = true;
  for (size_t i = 0; i < inPlace.size(); ++i)
    if (!inPlace[i])
      types.push_back(func.getResultTypes()[i]);
  for (Type type : types)
    operands.push_back(std::make_unique<Memory>(cast<RankedTensorType>(type)));
}

KernelRun::Memory::Memory(RankedTensorType type)
    : type(type), size(getTensorBytes(type)) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  pages = (static_cast<size_t>(size) + 2 * page - 1) / page * page + page;
  void *mapped = mmap(nullptr, pages, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED ||
      mprotect(static_cast<uint8_t *>(mapped) + pages - page, page,
               PROT_NONE) != 0)
    std::abort();
  region = static_cast<uint8_t *>(mapped);
  data = region + pages - page - size;
  std::fill(region, data, 0xa5);
  // 0x7fc0 again and again: NaN as fp32 and as bf16, 0x7fc0 as half too.
  for (int64_t i = 0; i < size; ++i)
    data[i] = i % 2 ? 0x7f : 0xc0;
}

KernelRun::Memory::~Memory() { munmap(region, pages); }

bool KernelRun::Memory::isIntact() const {
  return std::all_of(static_cast<const uint8_t *>(region),
                     static_cast<const uint8_t *>(data),
                     [](uint8_t byte) { return byte == 0xa5; });
}

KernelRun::~KernelRun() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

int64_t KernelRun::sizeOf(size_t operand) const {
  return operands[operand]->type.getNumElements();
}

Numbers KernelRun::set(size_t operand, const Numbers &values) {
  Memory &memory = *operands[operand];
  Type element = memory.type.getElementType();
  EXPECT_EQ(static_cast<int64_t>(values.size()), memory.type.getNumElements());
  for (size_t i = 0; i < values.size(); ++i) {
    float single = static_cast<float>(values[i]);
    if (element.isF32()) {
      std::memcpy(memory.data + 4 * i, &single, 4);
    } else if (element.isInteger(32)) {
      int32_t integer = static_cast<int32_t>(values[i]);
      std::memcpy(memory.data + 4 * i, &integer, 4);
    } else {
      uint16_t bits =
          element.isF16() ? floatToHalf(single) : floatToBf16(single);
      std::memcpy(memory.data + 2 * i, &bits, 2);
    }
  }
  return get(operand);
}

Numbers KernelRun::setRandom(size_t operand, double scale) {
  return set(operand, randomNumbers(sizeOf(operand), 1000 + operand, scale));
}

void KernelRun::setBytes(size_t operand, const std::vector<uint8_t> &bytes) {
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), operands[operand]->size);
  std::copy(bytes.begin(), bytes.end(), operands[operand]->data);
}

std::vector<uint8_t> KernelRun::bytes(size_t operand) const {
  const Memory &memory = *operands[operand];
  return std::vector<uint8_t>(memory.data, memory.data + memory.size);
}

Numbers KernelRun::get(size_t operand) const {
  const Memory &memory = *operands[operand];
  Type element = memory.type.getElementType();
  Numbers values(memory.type.getNumElements());
  for (size_t i = 0; i < values.size(); ++i) {
    if (element.isF32()) {
      float v;
      std::memcpy(&v, memory.data + 4 * i, 4);
      values[i] = v;
    } else if (element.isInteger(32)) {
      int32_t v;
      std::memcpy(&v, memory.data + 4 * i, 4);
      values[i] = v;
    } else {
      uint16_t bits;
      std::memcpy(&bits, memory.data + 2 * i, 2);
      values[i] = element.isF16() ? halfToFloat(bits) : bf16ToFloat(bits);
    }
  }
  return values;
}

void KernelRun::runTiles(int64_t tiles, uint64_t seed,
                         const std::vector<int64_t> &scalars) {
  std::vector<void *> addresses;
  for (std::unique_ptr<Memory> &memory : operands)
    addresses.push_back(memory->data);
  std::vector<int64_t> order(tiles);
  std::iota(order.begin(), order.end(), 0);
  if (seed)
    std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  for (int64_t tile : order)
    function(addresses.data(), scalars.data(), tile, tiles);
  for (size_t i = 0; i < operands.size(); ++i)
    EXPECT_TRUE(operands[i]->isIntact())
        << "operand " << i << " was overrun downwards";
}

void KernelRun::run(const std::vector<int64_t> &scalars) {
  ASSERT_TRUE(valid());
  ASSERT_EQ(scalars.size(), kernelInterface.coordinates.size() +
                                (kernelInterface.hasExtent ? 1 : 0));
  std::vector<std::vector<uint8_t>> initial, first;
  for (size_t i = 0; i < operands.size(); ++i)
    initial.push_back(bytes(i));
  runTiles(kernelInterface.tiles, 0, scalars);
  for (size_t i = 0; i < operands.size(); ++i)
    first.push_back(bytes(i));
  for (int64_t tiles : {int64_t{1}, int64_t{3}, int64_t{7}}) {
    for (size_t i = 0; i < operands.size(); ++i)
      setBytes(i, initial[i]);
    runTiles(tiles, tiles, scalars);
    for (size_t i = 0; i < operands.size(); ++i)
      EXPECT_EQ(bytes(i), first[i])
          << "operand " << i << " differs with " << tiles << " tiles";
  }
}

} // namespace heddle::test
