// What the kernels do with a warp's 32 lanes at once: products of small matrices, exchanges and copies.
//
// A fragment is a small matrix spread over the lanes. Lane l is in quad g = l / 4 and has place q = l % 4 in it:
//   left factor   16 x 16  a[0..3]: rows g, g + 8, g, g + 8; columns 2q, 2q + 1 of the left and then the right half
//   right factor  16 x 8   b0, b1: column g; rows 2q, 2q + 1 of the upper and then the lower half
//   product       16 x 8   d[0..3]: row g, columns 2q and 2q + 1; row g + 8, the same columns
// Numbers of 16 bits are bfloat16, or with HALF those of IEEE 754, two to a word, the first one low.
#pragma once

#ifndef HALF
#define HALF 0
#endif

typedef unsigned int Word;
typedef unsigned long long Words;

#ifdef DREE_ON_CPU
#include "on_cpu.h"
#else

#define DEVICE __device__ __forceinline__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#if HALF
#define LOW "f16"
#else
#define LOW "bf16"
#endif

// Two numbers in 16 bits each, rounded to nearest.
DEVICE Word packed(float first, float second) {
  Word word;
  asm("cvt.rn." LOW "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

DEVICE float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float inverse_of(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float float_of(Word bits) { return __uint_as_float(bits); }

#if HALF
DEVICE float first_of(Word word) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(word)));
  return x;
}
DEVICE float second_of(Word word) { return first_of(word >> 16); }
#else
DEVICE float first_of(Word word) { return float_of(word << 16); }
DEVICE float second_of(Word word) { return float_of(word & 0xffff0000u); }
#endif

// Two products, rounded to nearest.
DEVICE Word product(Word x, Word y) {
  Word word;
  asm("mul.rn." LOW "x2 %0, %1, %2;" : "=r"(word) : "r"(x), "r"(y));
  return word;
}

// d = a * b + c
DEVICE void multiply(float (&d)[4], const Word (&a)[4], Word b0, Word b1, float c0, float c1, float c2, float c3) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." LOW "." LOW ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}

// d += a * b
DEVICE void multiply(float (&d)[4], const Word (&a)[4], Word b0, Word b1) {
  multiply(d, a, b0, b1, d[0], d[1], d[2], d[3]);
}

// Four matrices of 8 x 8 from shared memory. Lane 8i + j says where row j of matrix i lies: 16 bytes, aligned.
// Of each, lane l gets columns 2q and 2q + 1 of row g; turned: rows 2q and 2q + 1 of column g.
DEVICE void load4(Word (&words)[4], const void* row) {
  Word at = static_cast<Word>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

DEVICE void load4_turned(Word (&words)[4], const void* row) {
  Word at = static_cast<Word>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(at)
               : "memory");
}

// An 8 x 8 matrix turned: lane l gives columns 2q and 2q + 1 of row g, and gets rows 2q and 2q + 1 of column g.
DEVICE Word turned(Word word) {
  Word other;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(word));
  return other;
}

// For each half of a word, all bits where it is a number other than zero, and none where it is zero.
DEVICE Word nonzero(Word word) {
  Word bits;
  asm("set.ne.u32." LOW "x2 %0, %1, %2;" : "=r"(bits) : "r"(word), "r"(0u));
  return bits;
}

DEVICE float from_lane(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DEVICE float from_neighbour(float x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
DEVICE int from_neighbour(int x, int distance) { return __shfl_xor_sync(0xffffffffu, x, distance); }
DEVICE bool anywhere(bool x) { return __any_sync(0xffffffffu, x); }
DEVICE void block_together() { __syncthreads(); }

// BYTES from device to shared memory, meanwhile; zeros where they are not valid. 16 bytes, or 8 or 4.
template <int BYTES>
DEVICE void copy(void* to, const void* from, bool valid) {
  Word at = static_cast<Word>(__cvta_generic_to_shared(to));
  int bytes = valid ? BYTES : 0;
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(BYTES), "r"(bytes)
                 : "memory");
}

DEVICE void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All copies but the last so many groups of them are done.
template <int LAST>
DEVICE void copies_done() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory");
}

// Four neighbouring numbers in device memory grow; they are aligned to 16 bytes.
DEVICE void grow4(float* at, const float (&by)[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(by[0]), "f"(by[1]), "f"(by[2]),
               "f"(by[3])
               : "memory");
}

// The upper half of a product.
DEVICE Word upper(Word x, Word y) { return __umulhi(x, y); }

#endif
