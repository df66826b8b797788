//===- c_api_client.c - A host program in C -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled as C99, so that heddle.h stays a C header.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/heddle.h"

#include <stdio.h>
#include <string.h>

#define TRY(expr)                                                              \
  do {                                                                         \
    heddle_status status = (expr);                                             \
    if (status) {                                                              \
      snprintf(message, size, "%s", heddle_status_message(status));            \
      code = heddle_status_code(status);                                       \
      heddle_status_free(status);                                              \
      goto done;                                                               \
    }                                                                          \
  } while (0)

static void count_calls(void *user, int64_t done, int64_t total) {
  (void)done;
  (void)total;
  ++*(int *)user;
}

// Runs program "main" with input x = {1, 2, 3, 4} and parameter n, and stores
// output y. Returns the code of the first failure with its message.
int heddle_test_c_client(const void *bytes, size_t length, int64_t n,
                         float *out_y, int *out_progress, char *message,
                         size_t size) {
  heddle_bundle *bundle = NULL;
  heddle_weights *weights = NULL;
  heddle_session *session = NULL;
  heddle_tensor *y = NULL;
  const float x[4] = {1, 2, 3, 4};
  const int64_t shape[1] = {4};
  const char *contract;
  size_t contract_length;
  heddle_session_options options;
  int code = HEDDLE_OK;

  TRY(heddle_bundle_parse(bytes, length, &bundle));
  heddle_bundle_section(bundle, "contract", &contract, &contract_length);
  if (contract_length != 2 || memcmp(contract, "{}", 2) != 0)
    snprintf(message, size, "no contract");
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.workers = 2;
  TRY(heddle_session_create(bundle, &options, &session));
  heddle_bundle_free(bundle); // the session keeps it
  bundle = NULL;
  TRY(heddle_weights_open("random:1", &weights));
  TRY(heddle_session_load_weights(session, weights, count_calls, out_progress));
  TRY(heddle_session_reset_states(session));
  TRY(heddle_session_set_param(session, "main", "n", n));
  TRY(heddle_session_set_input(session, "main", "x", 0, shape, 1, x,
                               sizeof(x)));
  TRY(heddle_session_run(session, "main"));
  TRY(heddle_session_output(session, "main", "y", &y));
  if (heddle_tensor_rank(y) != 1 || heddle_tensor_shape(y)[0] != 4 ||
      heddle_tensor_dtype(y) != 0 || heddle_tensor_bytes(y) != sizeof(x))
    snprintf(message, size, "unexpected output");
  else
    memcpy(out_y, heddle_tensor_data(y), sizeof(x));

done:
  heddle_tensor_free(y);
  heddle_session_free(session);
  heddle_weights_free(weights);
  heddle_bundle_free(bundle);
  return code;
}
