// What the decoder's kernels know of one instance's nodes, and how it lies in shared memory.
//
// `nodes` [B, N, G, D] in 16 bits: of each node the query as last node, key (scaled), value and pointer, and for TSP
// the query as start. A head has WIDTH of the D numbers. Compiled for TILES (of 16 nodes) and ROUTED (1: CVRP, 0: TSP).
#pragma once

#include "warp.cuh"

constexpr int HEADS = 8, WIDTH = 16, WORDS = HEADS * WIDTH / 2;  // of one node in one group
constexpr int NODES = 16 * TILES;                                // padded
constexpr int GROUPS = ROUTED ? 4 : 5;
constexpr int MATRIX = NODES * WIDTH * 2;  // bytes of one head's part of all nodes
constexpr int TILE = MATRIX / TILES;       // and of one tile
constexpr float LOG2_E = 1.4426950408889634f;

// Where a lane's row of four matrices of 8 x 8 starts in a tile: in this order, upper left, upper right, lower left and
// lower right. A row's halves are swapped in every other four rows, so that eight rows are read without a conflict.
DEVICE int rows_first(int lane) {
  int row = lane / 16 * 8 + lane % 8, half = lane / 8 % 2;
  return row * WIDTH * 2 + (half ^ (row / 4 % 2)) * 16;
}

// The same in another order: upper left, lower left, upper right and lower right.
DEVICE int halves_first(int lane) {
  int row = lane % 16, half = lane / 16;
  return row * WIDTH * 2 + (half ^ (row / 4 % 2)) * 16;
}

// The nodes of one group into shared memory, head by head; zeros where there is none. `order(row)` says which node is a
// row. A head's numbers are in the order 0 1 4 5 8 9 12 13, 2 3 6 7 10 11 14 15, so that place q of a fragment's
// columns are the numbers 4q to 4q + 3.
template <class Order>
DEVICE void spread(unsigned char* to, const Word* nodes, int group, int count, Order order) {
  for (int i = threadIdx.x; i < NODES * WORDS; i += blockDim.x) {
    int row = i / WORDS, head = i % WORDS / (WIDTH / 2), word = i % (WIDTH / 2), node = order(row);
    int half = word % 2 ^ row / 4 % 2;
    Word value = node < count ? nodes[(node * GROUPS + group) * WORDS + i % WORDS] : 0;
    *reinterpret_cast<Word*>(to + head * MATRIX + row * WIDTH * 2 + half * 16 + word / 2 * 4) = value;
  }
}

// What a query is made of: four numbers of the last node's, and for TSP of the start's.
struct Rows {
  uint2 last, start;
};

DEVICE Rows rows_of(const Word* nodes, int last, int start, int head, int q) {
  auto row = [&](int node, int group) {
    return __ldg(reinterpret_cast<const uint2*>(nodes + (node * GROUPS + group) * WORDS + head * WIDTH / 2 + q * 2));
  };
  Rows rows;
  rows.last = row(last, 0);
  if (!ROUTED) rows.start = row(start, 4);
  return rows;
}

// A lane's four numbers of a query, in two words, times the logarithm of e, as exponentials are to base 2.
DEVICE uint2 query_of(const Rows& rows, float share, const float4& of_load) {
  float x[4] = {first_of(rows.last.x), second_of(rows.last.x), first_of(rows.last.y), second_of(rows.last.y)};
  if (ROUTED) {
    x[0] += share * of_load.x;
    x[1] += share * of_load.y;
    x[2] += share * of_load.z;
    x[3] += share * of_load.w;
  } else {
    x[0] += first_of(rows.start.x);
    x[1] += second_of(rows.start.x);
    x[2] += first_of(rows.start.y);
    x[3] += second_of(rows.start.y);
  }
  return make_uint2(packed(x[0] * LOG2_E, x[1] * LOG2_E), packed(x[2] * LOG2_E, x[3] * LOG2_E));
}
