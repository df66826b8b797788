//===- trace.cpp - What each rank did when --------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "executor/trace.h"

#include "bundle/validate_plan.h"
#include "executor/program.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

namespace heddle::rt {

int64_t traceClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status writeTrace(const std::string &path,
                  const std::vector<const RankTrace *> &ranks) {
  auto quoted = [](const std::string &text) {
    // Names come from the bundle and need not be UTF-8.
    return nlohmann::json(text).dump(-1, ' ', false,
                                     nlohmann::json::error_handler_t::replace);
  };
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const RankTrace *rank : ranks)
    if (!rank->events.empty())
      start = std::min(start, rank->events.front().begin);

  constexpr int kRows = static_cast<int>(PlanLimits::streams);
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  char buffer[160];
  const char *separator = "";
  for (const RankTrace *rank : ranks) {
    // Rows are threads of one process: Perfetto shows ranks side by side.
    int row = rank->rank * kRows + rank->stream;
    std::string name = "rank " + std::to_string(rank->rank);
    if (rank->stream > 0)
      name += ", stream " + std::to_string(rank->stream);
    std::snprintf(
        buffer, sizeof(buffer),
        "%s{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_name\""
        ",\"args\":{\"name\":\"%s\"}},\n",
        separator, row, name.c_str());
    text += buffer;
    std::snprintf(
        buffer, sizeof(buffer),
        "{\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"name\":\"thread_sort_index\""
        ",\"args\":{\"sort_index\":%d}}",
        row, row);
    text += buffer;
    separator = ",\n";
    for (const TraceEvent &event : rank->events) {
      bool mark = event.begin == event.end;
      const Origin &origin = *event.origin;
      text += separator;
      text += "{\"name\":" +
              quoted(origin.name.empty() ? origin.kind : origin.name) +
              ",\"cat\":" + quoted(origin.kind);
      std::snprintf(buffer, sizeof(buffer),
                    ",\"ph\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%.3f",
                    mark ? "i" : "X", row,
                    static_cast<double>(event.begin - start) / 1000);
      text += buffer;
      if (mark) {
        text += ",\"s\":\"t\"";
      } else {
        std::snprintf(buffer, sizeof(buffer), ",\"dur\":%.3f",
                      static_cast<double>(event.end - event.begin) / 1000);
        text += buffer;
      }
      if (!origin.location.empty())
        text += ",\"args\":{\"location\":" + quoted(origin.location) + "}";
      text += "}";
    }
    if (rank->dropped > 0) {
      std::snprintf(buffer, sizeof(buffer),
                    ",\n{\"name\":\"%lld events not kept\",\"ph\":\"i\","
                    "\"pid\":0,\"tid\":%d,\"ts\":0,\"s\":\"t\"}",
                    static_cast<long long>(rank->dropped), row);
      text += buffer;
    }
  }
  text += "\n]}\n";
  return writeFileAtomically(path,
                             std::vector<uint8_t>(text.begin(), text.end()));
}

} // namespace heddle::rt
