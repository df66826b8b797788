// RUN: heddle-opt %s -split-input-file -verify-diagnostics --pass-pipeline="builtin.module(plan.program(plan-verify-in-flight))"

// What touches the buffers of a transfer that has not been waited for.

// The ring: the next block comes into one slot while the other one is read.
plan.program @ring {
  %rank = plan.coord "cp"
  plan.for 7 {
  ^bb0(%i: i64):
    %1 = plan.const 1
    %next = plan.binary add %i, %1
    plan.collective permute <r @work[0 + 64 * s0 mod 2 : 64]> <w @work[0 + 64 * s1 mod 2 : 64]> scalars(%i, %next) f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
    plan.launch @use [#plan.ref<r @work[0 + 64 * s0 mod 2 : 64]>, #plan.ref<r @state[0 + 64 * s1 : 64]>, #plan.ref<w @work[128 : 64]>] scalars(%i, %rank) block 0 tiles 1
    plan.wait 4
  }
  plan.launch @use [#plan.ref<r @work[64 : 64]>, #plan.ref<rw @work[0 : 64]>] block 0 tiles 1
}

// -----

// The slots are the wrong way round from the second turn on.
plan.program @parity {
  plan.for 7 {
  ^bb0(%i: i64):
    // expected-note @below {{begun here}}
    plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
    // expected-error @below {{'plan.launch' op expected nothing to read the destination of a collective in flight, got #plan.ref<r @work[0 + 64 * s0 mod 2 : 64]>}}
    plan.launch @use [#plan.ref<r @work[0 + 64 * s0 mod 2 : 64]>] scalars(%i) block 0 tiles 1
    plan.wait 4
  }
}

// -----

plan.program @source {
  // expected-note @below {{begun here}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  plan.launch @reads [#plan.ref<r @work[0 : 64]>] block 0 tiles 1
  // expected-error @below {{'plan.gemm' op expected nothing to write the source of a collective in flight}}
  plan.gemm <r @work[128 : 64]> <r @par[0 : 64]> <w @work[60 : 64]> m 4 n 4 k 4 panels 1
  plan.wait 4
}

// -----

// Another region, and bytes beside it, are no matter; a copy is.
plan.program @copy {
  // expected-note @below {{begun here}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  plan.copy <r @other[0 : 64]> <w @other[64 : 64]>
  plan.copy <r @work[128 : 64]> <w @work[192 : 64]>
  // expected-error @below {{'plan.copy' op expected nothing to write the destination of a collective in flight}}
  plan.copy <r @work[128 : 64]> <w @work[120 : 64]>
  plan.wait 4
}

// -----

// A rank's coordinate stands for every address that it may give.
plan.program @unknown {
  %rank = plan.coord "cp"
  // expected-note @below {{begun here}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  // expected-error @below {{'plan.launch' op expected nothing to read the destination of a collective in flight}}
  plan.launch @use [#plan.ref<r @work[0 + 64 * s0 mod 2 : 64]>] scalars(%rank) block 0 tiles 1
  plan.wait 4
}

// -----

// A second collective is an access too, waited for or not.
plan.program @second {
  // expected-note @below {{begun here}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  // expected-error @below {{'plan.collective' op expected nothing to read the destination of a collective in flight}}
  plan.collective all_reduce <r @work[64 : 64]> <w @work[128 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 5 shift 0 reduction "sum" because "test" origin "comm.all_reduce"
  plan.wait 4
}

// -----

// Begun in the first turn, and again in the second.
plan.program @again {
  plan.for 2 {
  ^bb0(%i: i64):
    // expected-note @below {{begun here}}
    // expected-error @below {{'plan.collective' op expected a wait for collective 4 before it is begun again}}
    plan.collective permute <r @work[0 + 128 * s0 : 64]> <w @work[64 + 128 * s0 : 64]> scalars(%i) f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  }
  plan.wait 4
}

// -----

plan.program @never {
  // expected-error @below {{'plan.collective' op expected the collective to be waited for before the program ends}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
}

// -----

plan.program @early {
  // expected-error @below {{'plan.wait' op expected collective 4 to be in flight}}
  plan.wait 4
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
}

// -----

// One block waits, the other one does not.
plan.program @cases {
  %rank = plan.coord "cp"
  // expected-error @below {{expected the collective to be waited for before the program ends}}
  plan.collective permute <r @work[0 : 64]> <w @work[64 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  plan.case %rank {
    plan.wait 4
  }, {
    plan.launch @use [#plan.ref<r @work[0 : 64]>] block 0 tiles 1
  }
}

// -----

// A wait a turn later; the slot of turn 100 is that of the last turn, 150.
plan.program @rotation {
  %0 = plan.const 0
  plan.collective permute <r @work[1024 : 64]> <w @work[0 : 64]> f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  plan.for 151 {
  ^bb0(%i: i64):
    plan.wait 4
    %1 = plan.const 1
    %next = plan.binary add %i, %1
    // expected-note @below {{begun here}}
    plan.collective permute <r @work[0 + 64 * s0 mod 3 : 64]> <w @work[0 + 64 * s1 mod 3 : 64]> scalars(%i, %next) f32 elements 16 group [#heddle.axis<cp>] id 4 shift 1 reduction "sum" because "test" origin "comm.permute_start" async
  }
  plan.launch @use [#plan.ref<r @work[128 : 64]>] block 0 tiles 1
  // 151 mod 3 is 1.
  // expected-error @below {{'plan.launch' op expected nothing to read the destination of a collective in flight}}
  plan.launch @use [#plan.ref<r @work[64 : 64]>] block 0 tiles 1
  plan.wait 4
}
