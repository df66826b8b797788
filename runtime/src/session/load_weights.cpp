//===- load_weights.cpp - Parameters by their recipes ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "session/load_weights.h"

#include "base/arena.h"
#include "base/text.h"
#include "bundle/validate_plan.h"
#include "heddle_rt/convert.h"
#include "heddle_rt/packing.h"
#include "session/layout.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace heddle::rt {
namespace {

/// One tensor of the source and everything that is made of it.
struct Job {
  const fb::RankClass *cls;
  const fb::Recipe *recipe;
  int64_t place;          // in the stack of layers
  std::string name;       // global
  const TensorInfo *info; // null for random sources
  const std::vector<const RankMemory *> *ranks;
};

std::string substitute(std::string pattern, int64_t layer) {
  size_t at = pattern.find("{i}");
  if (at != std::string::npos)
    pattern.replace(at, 3, std::to_string(layer));
  return pattern;
}

std::vector<int64_t> shapeOf(const fb::Recipe &recipe) {
  std::vector<int64_t> shape;
  if (recipe.dims())
    for (const fb::DimShard *dim : *recipe.dims())
      shape.push_back(dim->size());
  return shape;
}

/// Scratch memory of a worker.
struct Buffers {
  std::vector<float> floats;
  /// As large as a matrix: a mapping of its own, for the heap would keep it.
  Arena rowMajor;
  std::vector<uint8_t> blocks;
};

class Loader {
public:
  Loader(const fb::Plan &plan, const WeightSource &source)
      : plan_(plan), source_(source), gguf_(source.format() == "gguf"),
        seed_(source.seed()) {}

  Status collect(const std::vector<RankMemory> &ranks) {
    const fb::Plan &plan = plan_;
    byClass_.resize(plan.classes()->size());
    for (const RankMemory &rank : ranks) {
      uint32_t index =
          plan.rank_class()->size() == 1 ? 0 : static_cast<uint32_t>(rank.rank);
      byClass_[static_cast<size_t>(plan.rank_class()->Get(index))].push_back(
          &rank);
    }
    for (size_t c = 0; c < byClass_.size(); ++c) {
      const fb::RankClass *cls = plan.classes()->Get(static_cast<uint32_t>(c));
      if (byClass_[c].empty() || !cls->recipes())
        continue;
      for (const fb::Recipe *recipe : *cls->recipes()) {
        checkCuts(*recipe, byClass_[c]);
        int64_t layers = sizeOf(recipe->layers());
        for (int64_t i = 0; i < std::max<int64_t>(layers, 1); ++i)
          add(*cls, *recipe, i,
              layers ? recipe->layers()->Get(static_cast<uint32_t>(i)) : 0,
              byClass_[c]);
      }
    }
    if (problems_.empty())
      return {};
    return Status(missing_ ? Code::not_found : Code::invalid_argument,
                  concat("'", source_.description(),
                         "' does not have the bundle's weights:\n",
                         problems_.text()));
  }

  int64_t totalBytes() const {
    int64_t total = 0;
    for (const Job &job : jobs_)
      total += job.recipe->operand()->bytes() *
               static_cast<int64_t>(job.ranks->size());
    return total;
  }

  size_t jobs() const { return jobs_.size(); }

  /// Bytes written, or why not.
  Result<int64_t> run(size_t index) const {
    const Job &job = jobs_[index];
    const uint8_t *data = nullptr;
    if (job.info) {
      Result<const uint8_t *> found = source_.data(*job.info);
      if (!found)
        return found.status();
      data = *found;
    }
    // Ranks that hold the same elements get a copy.
    std::map<std::vector<int64_t>, const uint8_t *> done;
    for (const RankMemory *rank : *job.ranks) {
      std::vector<int64_t> coordinates = coordinatesOf(plan_, rank->rank);
      uint8_t *out = place(job, *rank);
      const uint8_t *&first = done[shardOf(job.recipe->dims(), coordinates)];
      if (first)
        std::memcpy(out, first,
                    static_cast<size_t>(job.recipe->operand()->bytes()));
      else
        fill(job, layoutOf(plan_, job.recipe->dims(), coordinates), data, out);
      first = out;
    }
    if (job.info)
      source_.release(data, job.info->bytes);
    return job.recipe->operand()->bytes() *
           static_cast<int64_t>(job.ranks->size());
  }

private:
  /// A stored block is never cut.
  void checkCuts(const fb::Recipe &recipe,
                 const std::vector<const RankMemory *> &ranks) {
    int64_t block = blockElements(static_cast<DType>(recipe.dtype()));
    if (block == 1)
      return;
    for (const RankMemory *rank : ranks) {
      TensorLayout layout =
          layoutOf(plan_, recipe.dims(), coordinatesOf(plan_, rank->rank));
      for (const Run &run : lastRuns(layout))
        if (run.local % block != 0 || run.global % block != 0 ||
            run.count % block != 0) {
          problems_.add("tensor '", recipe.name()->string_view(),
                        "': expected ranks to hold whole blocks of ", block,
                        " columns, got columns ", run.global, " to ",
                        run.global + run.count, " on rank ", rank->rank);
          return;
        }
    }
  }

  void add(const fb::RankClass &cls, const fb::Recipe &recipe, int64_t place,
           int64_t layer, const std::vector<const RankMemory *> &ranks) {
    Job job{&cls,    &recipe, place, substitute(recipe.name()->str(), layer),
            nullptr, &ranks};
    DType dtype = static_cast<DType>(recipe.dtype());
    std::vector<int64_t> shape = shapeOf(recipe);
    if (seed_) {
      if (!canEncode(dtype))
        problems_.add("tensor '", job.name,
                      "': expected a format that random values can be stored "
                      "in (f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, "
                      "q6_k), got ",
                      dtypeName(dtype));
      jobs_.push_back(std::move(job));
      return;
    }
    std::string stored = job.name;
    if (gguf_) {
      if (!recipe.gguf_name() || recipe.gguf_name()->size() == 0) {
        missing_ = true;
        problems_.add("tensor '", job.name,
                      "': the bundle knows no name for it in GGUF files");
        return;
      }
      stored = substitute(recipe.gguf_name()->str(), layer);
    }
    job.info = source_.find(stored);
    if (!job.info) {
      missing_ = true;
      problems_.add("tensor '", stored, "': expected shape ",
                    shapeString(shape), ", found no such tensor");
      return;
    }
    if (job.info->shape != shape) {
      problems_.add("tensor '", stored, "': expected shape ",
                    shapeString(shape), ", found ",
                    shapeString(job.info->shape));
      return;
    }
    // Nothing but q8_0 is made of other weights on the way: what coarser
    // formats lose depends on how they are made.
    bool makes =
        canEncode(dtype) && (blockElements(dtype) == 1 || dtype == DType::q8_0);
    if (job.info->dtype != dtype && !makes) {
      problems_.add("tensor '", stored, "': expected ", dtypeName(dtype),
                    " elements, found ", dtypeName(job.info->dtype));
      return;
    }
    jobs_.push_back(std::move(job));
  }

  uint8_t *place(const Job &job, const RankMemory &rank) const {
    const fb::Operand &operand = *job.recipe->operand();
    const fb::Region *region =
        job.cls->regions()->Get(static_cast<uint32_t>(operand.region()));
    return rank.spaces[static_cast<size_t>(region->space())] +
           region->offset() + operand.base() +
           job.place * job.recipe->layer_stride();
  }

  void fill(const Job &job, TensorLayout layout, const uint8_t *data,
            uint8_t *out) const {
    Buffers buffers;
    const fb::Recipe &recipe = *job.recipe;
    DType dtype = static_cast<DType>(recipe.dtype());
    const Packing &packing = *findPacking(recipe.packing()->string_view());
    uint8_t *rowMajor = out;
    int64_t rows = layout.localRows(), cols = layout.localCols();
    int64_t bytes = findPacking("row_major@1")->bytes(rows, cols, dtype);
    bool padded = layout.hasPadding();
    if (packing.pack) {
      Result<Arena> memory = Arena::allocate(bytes);
      if (!memory)
        throw std::bad_alloc();
      buffers.rowMajor = memory.take();
      rowMajor = buffers.rowMajor.data();
    }
    if (padded)
      std::memset(rowMajor, 0, static_cast<size_t>(bytes));
    if (gguf_ &&
        recipe.gguf_transform() == fb::SourceTransform_deinterleave_rows) {
      // A head's row half * size / 2 + j is stored as row 2 * j + half.
      int64_t size = layout.global.front() / recipe.heads();
      layout.permuteRows([size](int64_t row) {
        int64_t head = row / size, in = row % size;
        int64_t half = in / (size / 2), j = in % (size / 2);
        return head * size + 2 * j + half;
      });
    }
    forEachRow(layout, layout.global, [&](int64_t localRow, int64_t globalRow) {
      for (const Run &run : lastRuns(layout))
        segment(job, buffers, data, globalRow * layout.globalCols(), run.global,
                run.count,
                rowMajor + (localRow * cols + run.local) /
                               blockElements(dtype) * blockBytes(dtype));
    });
    if (packing.pack)
      packing.pack(rowMajor, rows, cols, dtype, out);
  }

  /// Writes `count` elements of the row that starts at element `row`.
  void segment(const Job &job, Buffers &buffers, const uint8_t *data,
               int64_t row, int64_t first, int64_t count, uint8_t *out) const {
    DType dtype = static_cast<DType>(job.recipe->dtype());
    if (!job.info) {
      buffers.floats.resize(static_cast<size_t>(count));
      drawRandom(*seed_, job.name, row + first, count,
                 job.recipe->random_scale(), job.recipe->random_offset(),
                 buffers.floats.data());
      encodeFromFloat(dtype, buffers.floats.data(), count, out);
      return;
    }
    DType stored = job.info->dtype;
    int64_t block = blockElements(stored);
    const uint8_t *begin = data + row / block * blockBytes(stored);
    if (stored == dtype) { // whole blocks: checkCuts
      std::memcpy(out, begin + first / block * blockBytes(stored),
                  static_cast<size_t>(count / block * blockBytes(stored)));
      return;
    }
    int64_t aligned = first - first % block;
    int64_t decoded = count + first - aligned;
    buffers.floats.resize(static_cast<size_t>(decoded));
    decodeToFloat(stored, begin, aligned, decoded, buffers.floats.data());
    encodeFromFloat(dtype, buffers.floats.data() + (first - aligned), count,
                    out);
  }

  const fb::Plan &plan_;
  const WeightSource &source_;
  bool gguf_;
  std::optional<uint64_t> seed_;
  std::vector<std::vector<const RankMemory *>> byClass_;
  std::vector<Job> jobs_;
  ProblemList problems_;
  bool missing_ = false;
};

} // namespace

Status loadWeights(const fb::Plan &plan, const std::vector<RankMemory> &ranks,
                   const WeightSource &source, WorkerPool &pool,
                   const std::function<void(int64_t, int64_t)> &progress) {
  Loader loader(plan, source);
  HEDDLE_RT_RETURN_IF_ERROR(loader.collect(ranks));
  int64_t total = loader.totalBytes();
  int64_t done = 0;
  std::mutex mutex;
  Status failure;
  pool.parallelFor(static_cast<int64_t>(loader.jobs()), [&](int64_t index) {
    Result<int64_t> bytes = loader.run(static_cast<size_t>(index));
    std::lock_guard<std::mutex> lock(mutex);
    if (!bytes) {
      if (failure.ok())
        failure = bytes.status();
      return;
    }
    done += *bytes;
    if (progress)
      progress(done, total);
  });
  return failure;
}

} // namespace heddle::rt
