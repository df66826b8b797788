//===- heddle.h - The runtime's C interface ---------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Enough to open a bundle, give it weights and run it, from C or through a
// foreign-function interface. Rules:
//
// - A function that can fail returns a heddle_status: null means success, and
//   anything else is freed with heddle_status_free. Outputs come last and are
//   written only on success.
// - Each …_open, …_create and heddle_session_output has one …_free, which
//   accepts null.
// - Text is UTF-8 and ends with a null byte. Pointers into a handle live as
//   long as the handle.
// - A handle is used by one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_HEDDLE_H
#define HEDDLE_RT_HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

typedef struct heddle_status_t *heddle_status;
typedef struct heddle_bundle heddle_bundle;
typedef struct heddle_weights heddle_weights;
typedef struct heddle_session heddle_session;
typedef struct heddle_tensor heddle_tensor;

/* What to do about a failure; same as heddle::rt::Code. */
enum {
  HEDDLE_OK = 0,
  HEDDLE_INVALID_ARGUMENT = 1,   /* fix the input; retrying cannot help */
  HEDDLE_NOT_FOUND = 2,          /* a file or name is not there */
  HEDDLE_DATA_LOSS = 3,          /* the file is damaged */
  HEDDLE_INCOMPATIBLE = 4,       /* recompile the bundle, or move */
  HEDDLE_RESOURCE_EXHAUSTED = 5, /* memory or another resource ran out */
  HEDDLE_ABORTED = 6,            /* another rank failed */
  HEDDLE_INTERNAL = 7            /* a bug in Heddle */
};

/* HEDDLE_OK for null. */
HEDDLE_API int heddle_status_code(heddle_status status);
/* "" for null. */
HEDDLE_API const char *heddle_status_message(heddle_status status);
HEDDLE_API void heddle_status_free(heddle_status status);

/*===-- Bundles -----------------------------------------------------------===*/

HEDDLE_API heddle_status heddle_bundle_open(const char *path,
                                            heddle_bundle **out_bundle);
/* Copies the bytes. */
HEDDLE_API heddle_status heddle_bundle_parse(const void *bytes, size_t length,
                                             heddle_bundle **out_bundle);
HEDDLE_API void heddle_bundle_free(heddle_bundle *bundle);
HEDDLE_API int64_t heddle_bundle_world_size(const heddle_bundle *bundle);
/* "contract" is the report as JSON; an absent section has length 0. Not
   null-terminated. */
HEDDLE_API void heddle_bundle_section(const heddle_bundle *bundle,
                                      const char *id, const char **out_bytes,
                                      size_t *out_length);
/* Facts about the model for its host, as JSON; "" if there are none. */
HEDDLE_API const char *heddle_bundle_interface(const heddle_bundle *bundle);

/*===-- Weights -----------------------------------------------------------===*/

/* A folder, a .safetensors or .gguf file, or "random:SEED". */
HEDDLE_API heddle_status heddle_weights_open(const char *path,
                                             heddle_weights **out_weights);
HEDDLE_API void heddle_weights_free(heddle_weights *weights);

/*===-- Sessions ----------------------------------------------------------===*/

typedef struct heddle_session_options {
  size_t struct_size; /* sizeof(heddle_session_options) */
  int32_t workers;    /* 0 = one per processor */
  int32_t poisoned;   /* not 0: fill memory with `poison` first */
  uint32_t poison;
  uint32_t reserved;
  uint64_t schedule_seed; /* 0 = first come, first served */
  const char *trace_path; /* null = no trace */
} heddle_session_options;

/* All ranks of the bundle in this process. `options` may be null. The session
   keeps the bundle alive. */
HEDDLE_API heddle_status heddle_session_create(
    const heddle_bundle *bundle, const heddle_session_options *options,
    heddle_session **out_session);
HEDDLE_API void heddle_session_free(heddle_session *session);

/* `progress` may be null; it is called with bytes done and in all, from any
   thread, one call at a time. */
HEDDLE_API heddle_status heddle_session_load_weights(
    heddle_session *session, const heddle_weights *weights,
    void (*progress)(void *user, int64_t done, int64_t total), void *user);
HEDDLE_API heddle_status heddle_session_reset_states(heddle_session *session);
HEDDLE_API heddle_status heddle_session_set_param(heddle_session *session,
                                                  const char *program,
                                                  const char *name,
                                                  int64_t value);
/* `dtype` as in heddle::rt::DType (f32 0, f16 1, bf16 2, i8 3, i16 4, i32 5,
   i64 6, u8 7, f64 8, bool 9). The data are copied, and stay from run to run.
   An input that was never set holds zeros; a generate program is greedy then.
 */
HEDDLE_API heddle_status
heddle_session_set_input(heddle_session *session, const char *program,
                         const char *name, int32_t dtype, const int64_t *shape,
                         size_t rank, const void *data, size_t bytes);
HEDDLE_API heddle_status heddle_session_run(heddle_session *session,
                                            const char *program);
HEDDLE_API heddle_status heddle_session_output(heddle_session *session,
                                               const char *program,
                                               const char *name,
                                               heddle_tensor **out_tensor);
HEDDLE_API heddle_status heddle_session_state(heddle_session *session,
                                              const char *name,
                                              heddle_tensor **out_tensor);
HEDDLE_API heddle_status heddle_session_write_trace(heddle_session *session);

HEDDLE_API int32_t heddle_tensor_dtype(const heddle_tensor *tensor);
HEDDLE_API size_t heddle_tensor_rank(const heddle_tensor *tensor);
HEDDLE_API const int64_t *heddle_tensor_shape(const heddle_tensor *tensor);
HEDDLE_API const void *heddle_tensor_data(const heddle_tensor *tensor);
HEDDLE_API size_t heddle_tensor_bytes(const heddle_tensor *tensor);
HEDDLE_API void heddle_tensor_free(heddle_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif // HEDDLE_RT_HEDDLE_H
