//===- validate_plan.cpp - Structure of a plan ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/validate_plan.h"

#include "base/checked_math.h"
#include "heddle_rt/bundle.h"
#include "heddle_rt/packing.h"

#include <algorithm>
#include <set>

namespace heddle::rt {

int64_t worldSizeOf(const fb::Plan &plan) {
  int64_t size = 1;
  if (plan.axes())
    for (const fb::Axis *axis : *plan.axes())
      size *= axis->size();
  return size;
}

std::optional<DType> knownDType(fb::DType type) {
  int value = static_cast<int>(type);
  bool plain = value >= fb::DType_f32 && value <= fb::DType_boolean;
  bool block = value >= fb::DType_q4_0 && value <= fb::DType_q6_k;
  if (!plain && !block)
    return std::nullopt;
  return static_cast<DType>(value);
}

bool isReducible(fb::DType type) {
  return type == fb::DType_f32 || type == fb::DType_f16 ||
         type == fb::DType_bf16 || type == fb::DType_i32 ||
         type == fb::DType_i64;
}

namespace {

/// FlatBuffers' verifier aligns a vector's length but not its elements.
bool isAligned(const void *address, size_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

} // namespace

bool checkOperand(const fb::RankClass &cls, const fb::Operand &operand,
                  int64_t scalars, const std::string &where,
                  ProblemList &problems, int64_t &work) {
  if (operand.region() < 0 || operand.region() >= sizeOf(cls.regions())) {
    problems.add(where, ": expected a region below ", sizeOf(cls.regions()),
                 ", got ", operand.region());
    return false;
  }
  if (operand.bytes() < 0) {
    problems.add(where, ": expected a size of at least 0 bytes, got ",
                 operand.bytes());
    return false;
  }
  if (operand.access() < fb::Access_read ||
      operand.access() > fb::Access_read_write) {
    problems.add(where, ": expected an access, got ",
                 static_cast<int>(operand.access()));
    return false;
  }
  int64_t terms = sizeOf(operand.terms());
  work += terms;
  if (terms > PlanLimits::terms) {
    problems.add(where, ": expected at most ", PlanLimits::terms,
                 " address terms, got ", terms);
    return false;
  }
  if (terms > 0 && !isAligned(operand.terms()->Data(), alignof(fb::Term))) {
    problems.add(where, ": expected address terms that are aligned");
    return false;
  }
  for (int64_t i = 0; i < terms; ++i) {
    const fb::Term *term = operand.terms()->Get(static_cast<uint32_t>(i));
    if (scalars == 0) {
      problems.add(where, ": expected a fixed address, got ", terms, " terms");
      return false;
    }
    if (term->scalar() < 0 || term->scalar() >= scalars) {
      problems.add(where, ": expected a scalar below ", scalars, ", got ",
                   term->scalar());
      return false;
    }
    if (term->stride() < -PlanLimits::bytes ||
        term->stride() > PlanLimits::bytes) {
      problems.add(where, ": expected a stride of at most ", PlanLimits::bytes,
                   ", got ", term->stride());
      return false;
    }
    if (term->modulus() < 0) {
      problems.add(where, ": expected a modulus of at least 0, got ",
                   term->modulus());
      return false;
    }
  }
  return true;
}

namespace {

class Structure {
public:
  Structure(const fb::Plan &plan, int64_t planBytes, ProblemList &problems)
      : plan_(plan), planBytes_(planBytes), problems_(problems) {}

  void check() {
    if (!checkAxes() || !checkTables())
      return;
    checkKernels();
    int64_t classes = sizeOf(plan_.classes());
    if (classes == 0)
      problems_.add("expected at least one rank class");
    int64_t world = worldSizeOf(plan_);
    int64_t entries = sizeOf(plan_.rank_class());
    if (entries != 1 && entries != world)
      problems_.add("expected the class of 1 or ", world, " ranks, got ",
                    entries);
    for (int64_t i = 0; i < entries; ++i) {
      int32_t cls = plan_.rank_class()->Get(static_cast<uint32_t>(i));
      if (cls < 0 || cls >= classes) {
        problems_.add("rank ", i, ": expected a class below ", classes,
                      ", got ", cls);
        break;
      }
    }
    if (!problems_.empty())
      return;
    for (const fb::RankClass *cls : *plan_.classes()) {
      checkClass(*cls);
      if (problems_.full() || tooMuch())
        return;
    }
  }

private:
  bool tooMuch() {
    if (work_ <= PlanLimits::work)
      return false;
    problems_.add("the plan is too large to check");
    work_ = 0;
    return true;
  }

  bool checkAxes() {
    int64_t axes = sizeOf(plan_.axes());
    if (axes > PlanLimits::axes) {
      problems_.add("expected at most ", PlanLimits::axes, " mesh axes, got ",
                    axes);
      return false;
    }
    int64_t world = 1;
    std::set<std::string_view> names;
    for (int64_t i = 0; i < axes; ++i) {
      const fb::Axis *axis = plan_.axes()->Get(static_cast<uint32_t>(i));
      std::string_view name = axis->name()->string_view();
      if (!names.insert(name).second)
        problems_.add("mesh axis '", name, "' is there twice");
      if (axis->size() < 1 || axis->size() > PlanLimits::worldSize ||
          (world *= axis->size()) > PlanLimits::worldSize) {
        problems_.add("mesh axis '", name, "': expected a size of at least 1 ",
                      "and a mesh of at most ", PlanLimits::worldSize,
                      " ranks, got ", axis->size());
        return false;
      }
    }
    return problems_.empty();
  }

  bool checkTables() {
    int64_t cells = 0;
    for (int64_t i = 0, n = sizeOf(plan_.tables()); i < n; ++i) {
      const fb::IntTable *table = plan_.tables()->Get(static_cast<uint32_t>(i));
      int64_t expected = 0;
      if (table->rows() < 1 || table->cols() < 1 ||
          !checkedMul(table->rows(), table->cols(), expected) ||
          expected != sizeOf(table->data()) ||
          !isAligned(table->data()->data(), alignof(int64_t))) {
        problems_.add("table '", table->name()->string_view(), "': expected ",
                      table->rows(), " x ", table->cols(),
                      " aligned cells, got ", sizeOf(table->data()));
        return false;
      }
      cells += expected;
      // A file can share one vector between many tables; then looking at each
      // would take longer than the file is long.
      if (cells > planBytes_ / 8) {
        problems_.add("the tables hold more cells than the plan has bytes for");
        return false;
      }
    }
    return true;
  }

  void checkKernels() {
    if (!plan_.kernels())
      return;
    for (const flatbuffers::String *symbol : *plan_.kernels())
      if (symbol->size() == 0) {
        problems_.add("expected a kernel symbol, got an empty name");
        return;
      }
  }

  void checkClass(const fb::RankClass &cls) {
    std::string where = concat("class '", cls.name()->string_view(), "'");
    if (!checkSpaces(cls, where))
      return;
    std::set<std::string_view> names;
    for (int64_t i = 0, n = sizeOf(cls.programs()); i < n; ++i) {
      const fb::Program *program =
          cls.programs()->Get(static_cast<uint32_t>(i));
      if (!names.insert(program->name()->string_view()).second)
        problems_.add(where, ": program '", program->name()->string_view(),
                      "' is there twice");
      checkProgram(cls, *program);
      if (problems_.full() || tooMuch())
        return;
    }
    names.clear();
    for (int64_t i = 0, n = sizeOf(cls.states()); i < n; ++i) {
      const fb::State *state = cls.states()->Get(static_cast<uint32_t>(i));
      std::string name =
          concat(where, ", state '", state->name()->string_view(), "'");
      if (!names.insert(state->name()->string_view()).second)
        problems_.add(name, " is there twice");
      checkTensor(cls, *state->operand(), state->dtype(), state->dims(), name);
      if (problems_.full() || tooMuch())
        return;
    }
    for (int64_t i = 0, n = sizeOf(cls.recipes()); i < n; ++i) {
      checkRecipe(cls, *cls.recipes()->Get(static_cast<uint32_t>(i)), where);
      if (problems_.full() || tooMuch())
        return;
    }
  }

  bool checkSpaces(const fb::RankClass &cls, const std::string &where) {
    int64_t spaces = sizeOf(cls.spaces());
    if (spaces > PlanLimits::spaces) {
      problems_.add(where, ": expected at most ", PlanLimits::spaces,
                    " spaces, got ", spaces);
      return false;
    }
    for (int64_t i = 0; i < spaces; ++i) {
      const fb::Space *space = cls.spaces()->Get(static_cast<uint32_t>(i));
      if (space->bytes() < 0 || space->bytes() > PlanLimits::bytes)
        problems_.add(where, ", space '", space->name()->string_view(),
                      "': expected 0 to ", PlanLimits::bytes, " bytes, got ",
                      space->bytes());
      if (space->kind() > fb::SpaceKind_pinned)
        problems_.add(where, ", space '", space->name()->string_view(),
                      "': expected a kind that this runtime has (device, "
                      "host, pinned), got ",
                      static_cast<int>(space->kind()));
    }
    work_ += sizeOf(cls.regions());
    for (int64_t i = 0, n = sizeOf(cls.regions()); i < n; ++i) {
      const fb::Region *region = cls.regions()->Get(static_cast<uint32_t>(i));
      std::string_view name = region->name()->string_view();
      if (region->space() < 0 || region->space() >= spaces) {
        problems_.add(where, ", region '", name, "': expected a space below ",
                      spaces, ", got ", region->space());
        continue;
      }
      int64_t size =
          cls.spaces()->Get(static_cast<uint32_t>(region->space()))->bytes();
      if (region->offset() < 0 || region->bytes() < 0 ||
          region->offset() > size || region->bytes() > size - region->offset())
        problems_.add(where, ", region '", name, "': [", region->offset(),
                      ", + ", region->bytes(), ") is not inside its space of ",
                      size, " bytes");
      if (region->kind() > fb::RegionKind_io)
        problems_.add(where, ", region '", name, "': expected a kind, got ",
                      static_cast<int>(region->kind()));
    }
    return problems_.empty();
  }

  void checkProgram(const fb::RankClass &cls, const fb::Program &program) {
    std::string where =
        concat("class '", cls.name()->string_view(), "', program '",
               program.name()->string_view(), "'");
    if (program.scalars() < 0 || program.scalars() > PlanLimits::scalars) {
      problems_.add(where, ": expected 0 to ", PlanLimits::scalars,
                    " scalars, got ", program.scalars());
      return;
    }
    std::set<std::string_view> names;
    for (int64_t i = 0, n = sizeOf(program.params()); i < n; ++i) {
      const fb::Param *param = program.params()->Get(static_cast<uint32_t>(i));
      std::string_view name = param->name()->string_view();
      if (!names.insert(name).second)
        problems_.add(where, ": parameter '", name, "' is there twice");
      if (param->scalar() < 0 || param->scalar() >= program.scalars())
        problems_.add(where, ", parameter '", name,
                      "': expected a scalar below ", program.scalars(),
                      ", got ", param->scalar());
      if (param->lo() > param->initial() || param->initial() > param->hi())
        problems_.add(where, ", parameter '", name, "': expected ", param->lo(),
                      " <= initial <= ", param->hi(), ", got ",
                      param->initial());
    }
    auto checkIOs =
        [&](const flatbuffers::Vector<flatbuffers::Offset<fb::IO>> *ios,
            const char *what, bool covered) {
          names.clear();
          for (int64_t i = 0, n = sizeOf(ios); i < n && !problems_.full();
               ++i) {
            const fb::IO *io = ios->Get(static_cast<uint32_t>(i));
            std::string name =
                concat(where, ", ", what, " '", io->name()->string_view(), "'");
            if (!names.insert(io->name()->string_view()).second)
              problems_.add(name, " is there twice");
            checkTensor(cls, *io->operand(), io->dtype(), io->dims(), name,
                        covered);
            if (io->consecutive() < 0)
              problems_.add(name,
                            ": expected a promise of positions below a "
                            "number, got ",
                            io->consecutive());
            if (io->within() && !hasInput(program, *io->within()))
              problems_.add(name, ": expected an input '",
                            io->within()->string_view(), "'");
          }
        };
    checkIOs(program.inputs(), "input", /*covered=*/false);
    checkIOs(program.outputs(), "output", /*covered=*/true);
    if (!problems_.empty())
      return;
    validateInstructions(plan_, cls, program, problems_, work_);
  }

  static bool hasInput(const fb::Program &program,
                       const flatbuffers::String &name) {
    if (program.inputs())
      for (const fb::IO *io : *program.inputs())
        if (io->name()->string_view() == name.string_view())
          return true;
    return false;
  }

  using Dims = flatbuffers::Vector<flatbuffers::Offset<fb::DimShard>>;

  /// Checks layouts and gives the local shape.
  bool checkDims(const Dims *dims, const std::string &where, bool covered,
                 std::vector<int64_t> &local) {
    if (sizeOf(dims) > PlanLimits::dims) {
      problems_.add(where, ": expected at most ", PlanLimits::dims,
                    " dimensions, got ", sizeOf(dims));
      return false;
    }
    std::set<int32_t> used;
    for (int64_t d = 0, n = sizeOf(dims); d < n; ++d) {
      const fb::DimShard *dim = dims->Get(static_cast<uint32_t>(d));
      std::string at = concat(where, ", dimension ", d);
      if (dim->size() < 0 || dim->size() > PlanLimits::bytes ||
          dim->unit() < 1 || dim->unit() > PlanLimits::bytes ||
          dim->slots() < 0 || dim->slots() > PlanLimits::bytes) {
        problems_.add(at, ": expected a size, a unit of at least 1 and slots, ",
                      "got ", dim->size(), ", ", dim->unit(), " and ",
                      dim->slots());
        return false;
      }
      int64_t parts = 1;
      for (int64_t i = 0, m = sizeOf(dim->axes()); i < m; ++i) {
        int32_t axis = dim->axes()->Get(static_cast<uint32_t>(i));
        if (axis < 0 || axis >= sizeOf(plan_.axes()) ||
            !used.insert(axis).second) {
          problems_.add(at, ": expected a mesh axis that is used once, got ",
                        axis);
          return false;
        }
        parts *= plan_.axes()->Get(static_cast<uint32_t>(axis))->size();
      }
      int64_t units = ceilDiv(dim->size(), dim->unit());
      int64_t held = 0, extent = 0;
      if (!checkedMul(dim->slots(), parts, held) ||
          !checkedMul(dim->slots(), dim->unit(), extent)) {
        problems_.add(at, ": the local extent overflows");
        return false;
      }
      if (!checkMap(*dim, parts, units, covered, at))
        return false;
      if (dim->map() < 0 && covered && held < units) {
        problems_.add(at, ": expected slots for ", units, " units, got ", held);
        return false;
      }
      local.push_back(extent);
    }
    return true;
  }

  bool checkMap(const fb::DimShard &dim, int64_t parts, int64_t units,
                bool covered, const std::string &at) {
    if (dim.map() == -1)
      return true;
    if (dim.map() < -1 || dim.map() >= sizeOf(plan_.tables())) {
      problems_.add(at, ": expected a table below ", sizeOf(plan_.tables()),
                    ", got ", dim.map());
      return false;
    }
    const fb::IntTable *map =
        plan_.tables()->Get(static_cast<uint32_t>(dim.map()));
    if (map->rows() != parts || map->cols() != dim.slots()) {
      problems_.add(at, ": expected a map of ", parts, " x ", dim.slots(),
                    ", got ", map->rows(), " x ", map->cols());
      return false;
    }
    work_ += sizeOf(map->data());
    bool coverable = units <= sizeOf(map->data());
    std::vector<bool> owned(coverable ? static_cast<size_t>(units) : 0);
    int64_t owners = 0;
    for (int64_t unit : *map->data()) {
      if (unit < -1 || unit >= units) {
        problems_.add(at, ": expected units of -1 to ", units - 1,
                      " in the map, got ", unit);
        return false;
      }
      if (coverable && unit >= 0 && !owned[static_cast<size_t>(unit)]) {
        owned[static_cast<size_t>(unit)] = true;
        ++owners;
      }
    }
    if (covered && owners < units) {
      problems_.add(at, ": ", units - owners, " of ", units,
                    " units have no owner");
      return false;
    }
    return true;
  }

  void checkTensor(const fb::RankClass &cls, const fb::Operand &operand,
                   fb::DType type, const Dims *dims, const std::string &where,
                   bool covered = false) {
    std::vector<int64_t> local;
    if (!checkFixed(cls, operand, where) ||
        !checkDims(dims, where, covered, local))
      return;
    std::optional<DType> dtype = knownDType(type);
    if (!dtype) {
      problems_.add(where, ": expected an element type, got ",
                    static_cast<int>(type));
      return;
    }
    checkBytes(*dtype, local, *findPacking("row_major@1"), operand.bytes(),
               where);
  }

  void checkBytes(DType dtype, const std::vector<int64_t> &local,
                  const Packing &packing, int64_t bytes,
                  const std::string &where) {
    int64_t rows = 1;
    int64_t cols = local.empty() ? 1 : local.back();
    for (size_t d = 0; d + 1 < local.size(); ++d)
      if (!checkedMul(rows, local[d], rows)) {
        problems_.add(where, ": the local shape overflows");
        return;
      }
    int64_t expected = packing.bytes(rows, cols, dtype);
    if (expected < 0)
      problems_.add(where, ": expected a shape that '", packing.name,
                    "' can hold, got ", rows, " x ", cols, " ",
                    dtypeName(dtype));
    else if (bytes < expected)
      problems_.add(where, ": expected at least ", expected, " bytes for ",
                    rows, " x ", cols, " ", dtypeName(dtype), ", got ", bytes);
  }

  bool checkFixed(const fb::RankClass &cls, const fb::Operand &operand,
                  const std::string &where) {
    if (!checkOperand(cls, operand, /*scalars=*/0, where, problems_, work_))
      return false;
    int64_t size =
        cls.regions()->Get(static_cast<uint32_t>(operand.region()))->bytes();
    if (operand.base() < 0 || operand.base() > size ||
        operand.bytes() > size - operand.base()) {
      problems_.add(where, ": [", operand.base(), ", + ", operand.bytes(),
                    ") is not inside its region of ", size, " bytes");
      return false;
    }
    return true;
  }

  void checkRecipe(const fb::RankClass &cls, const fb::Recipe &recipe,
                   const std::string &outer) {
    std::string where =
        concat(outer, ", recipe '", recipe.name()->string_view(), "'");
    std::vector<int64_t> local;
    if (!checkFixed(cls, *recipe.operand(), where) ||
        !checkDims(recipe.dims(), where, /*covered=*/false, local))
      return;
    int64_t layers = sizeOf(recipe.layers());
    work_ += layers;
    if (layers > 0) {
      int64_t last = 0;
      int64_t region =
          cls.regions()
              ->Get(static_cast<uint32_t>(recipe.operand()->region()))
              ->bytes();
      int64_t room =
          region - recipe.operand()->base() - recipe.operand()->bytes();
      if (recipe.layer_stride() < 0 ||
          !checkedMul(layers - 1, recipe.layer_stride(), last) || last > room)
        problems_.add(where, ": ", layers, " layers of stride ",
                      recipe.layer_stride(), " do not fit in the region of ",
                      region, " bytes");
      for (int32_t layer : *recipe.layers())
        if (layer < 0) {
          problems_.add(where, ": expected layer numbers, got ", layer);
          break;
        }
    }
    std::optional<DType> dtype = knownDType(recipe.dtype());
    if (!dtype) {
      problems_.add(where, ": expected an element type, got ",
                    static_cast<int>(recipe.dtype()));
      return;
    }
    const Packing *packing = findPacking(recipe.packing()->string_view());
    if (!packing) {
      problems_.add(where, ": expected a packing that this runtime has (",
                    joined(packingNames()), "), got '",
                    recipe.packing()->string_view(), "'");
      return;
    }
    checkBytes(*dtype, local, *packing, recipe.operand()->bytes(), where);
    if (recipe.gguf_transform() > fb::SourceTransform_deinterleave_rows)
      problems_.add(where, ": expected a source transform, got ",
                    static_cast<int>(recipe.gguf_transform()));
    if (recipe.gguf_transform() == fb::SourceTransform_deinterleave_rows) {
      int64_t rows = sizeOf(recipe.dims()) ? recipe.dims()->Get(0)->size() : 0;
      if (recipe.heads() < 1 || rows % recipe.heads() != 0 ||
          rows / recipe.heads() % 2 != 0)
        problems_.add(where, ": expected ", rows,
                      " rows in heads of an even "
                      "size, got ",
                      recipe.heads(), " heads");
    }
  }

  const fb::Plan &plan_;
  int64_t planBytes_;
  ProblemList &problems_;
  int64_t work_ = 0;
};

} // namespace

void validateStructure(const fb::Plan &plan, int64_t planBytes,
                       ProblemList &problems) {
  Structure(plan, planBytes, problems).check();
}

Result<const fb::Plan *> verifyPlan(std::string_view bytes) {
  // Offsets of a FlatBuffer are 32 bits, signed in places.
  if (bytes.size() >= (size_t{1} << 31) - 1)
    return Status(Code::invalid_argument,
                  concat("expected a plan of less than 2 GiB, got ",
                         bytes.size(), " bytes"));
  flatbuffers::Verifier::Options options;
  // Each block is three tables deep: instruction, loop, block.
  options.max_depth = 3 * PlanLimits::blockDepth + 16;
  options.max_tables = 4'000'000;
  flatbuffers::Verifier verifier(
      reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), options);
  if (bytes.size() < 16 || !fb::PlanBufferHasIdentifier(bytes.data()) ||
      !fb::VerifyPlanBuffer(verifier))
    return Status(Code::data_loss,
                  "the plan is not a valid FlatBuffer of the plan schema");
  const fb::Plan *plan = fb::GetPlan(bytes.data());
  if (plan->version() != kPlanVersion)
    return Status(Code::incompatible,
                  concat("expected plan version ", kPlanVersion, ", got ",
                         plan->version()));

  ProblemList problems;
  validateStructure(*plan, static_cast<int64_t>(bytes.size()), problems);
  int64_t work = 0;
  if (problems.empty())
    for (const fb::RankClass *cls : *plan->classes())
      if (cls->programs())
        for (const fb::Program *program : *cls->programs())
          if (!problems.full())
            validateRanges(*plan, *cls, *program, problems, work);
  if (!problems.empty())
    return Status(Code::invalid_argument,
                  "the plan is invalid: " + problems.text());
  return plan;
}

} // namespace heddle::rt
