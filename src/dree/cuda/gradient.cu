// The gradient of a weighted sum of tours' log-probabilities for what the decoder knows of the nodes: a block takes one
// instance, and each of its warps one head. Compiled for TILES and ROUTED.
//
// `attention_gradient` has all but the pointers and the offsets, which `pointer_gradient` has: together they would need
// too many registers.

#include "states.cuh"

constexpr int QUERY_ROW = WORDS * 4 + 16;  // bytes

// The rows of one group into shared memory as they are.
DEVICE void lay_out(unsigned char* to, const Word* nodes, int group, int count) {
  for (int i = threadIdx.x; i < count * WORDS; i += blockDim.x)
    *reinterpret_cast<Word*>(to + i / WORDS * QUERY_ROW + i % WORDS * 4) =
        nodes[(i / WORDS * GROUPS + group) * WORDS + i % WORDS];
}

KERNEL(32 * HEADS, TILES < 4 || (TILES == 4 && ROUTED) ? 2 : 1)
attention_gradient(const Word* __restrict__ nodes,         // [B, N, G, D]
                   const float* __restrict__ load_query,   // [D] (CVRP)
                   const long long* __restrict__ actions,  // [B, P, T]
                   const float* __restrict__ loads,        // [B, P, T - 1] (CVRP)
                   const float* __restrict__ weights,      // [B, P]
                   const Word* __restrict__ tape,          // [B, P, T - 1, NODES]
                   const Word* __restrict__ attended,      // [B, P, T - 1, D]
                   const float* __restrict__ logsums,      // [B, P, T - 1, H]
                   const int* __restrict__ lengths,        // [B, P]
                   Word* to_nodes,                         // out [B, N, G, D]: keys and values
                   float* to_last,                         // out [B, N, D], zero before
                   float* to_start,                        // out [B, N, D], zero before (TSP)
                   float* to_load_query,                   // out [B, D] (CVRP)
                   int tours, int count, int longest) {
  SHARED(memory);
  Stage* stages = reinterpret_cast<Stage*>(memory);
  Tours& of_tours = *reinterpret_cast<Tours*>(stages + STAGES);
  unsigned char *keys = reinterpret_cast<unsigned char*>(&of_tours + 1), *values = keys + HEADS * MATRIX;
  unsigned char *pointers = values + HEADS * MATRIX, *last = pointers + HEADS * MATRIX;
  unsigned char* start = last + NODES * QUERY_ROW;
  const int lane = threadIdx.x % 32, head = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const long long instance = blockIdx.y;
  const States states = states_of(instance, lengths, weights, actions, tours, longest, of_tours);
  nodes += instance * count * GROUPS * WORDS;
  auto in_order = [](int row) { return row; };
  spread(keys, nodes, 1, count, in_order);
  spread(values, nodes, 2, count, in_order);
  spread(pointers, nodes, 3, count, in_order);
  lay_out(last, nodes, 0, count);
  if (!ROUTED) lay_out(start, nodes, 4, count);
  block_together();

  const unsigned char* head_keys = keys + head * MATRIX + halves_first(lane);
  const unsigned char* head_values = values + head * MATRIX + halves_first(lane);
  const unsigned char* head_pointers = pointers + head * MATRIX + halves_first(lane);
  const int as_states = states_first(lane), as_nodes = nodes_first(lane);
  const int own = head * WIDTH + 4 * q;  // the first of a lane's four numbers of a row
  const float4 of_load = ROUTED ? *reinterpret_cast<const float4*>(load_query + own) : float4();
  to_last += instance * count * (HEADS * WIDTH) + own;
  to_start += instance * count * (HEADS * WIDTH) + own;

  float to_key[TILES][2][4], to_value[TILES][2][4], to_load[4] = {0, 0, 0, 0};
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int i = 0; i < 8; ++i) to_key[t][i / 4][i % 4] = to_value[t][i / 4][i % 4] = 0;
  auto copy = [&](Stage& to, int first) {
    copy_states<true>(to, states, first, tape, attended, logsums, actions, loads);
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) copy(stages[i], i * STAGE);

  int slot = 0;
#pragma unroll 1
  for (int base = 0; base < states.total; base += GROUP) {
    const int begin = base % STAGE;
    const Stage& stage = stage_of(stages, base, slot, copy);
    const unsigned char* given_rows = stage.tape[begin];

    Word query[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const About about = stage.about[begin + g + 8 * r];
      Rows rows;
      rows.last = *reinterpret_cast<const uint2*>(last + static_cast<int>(about.current) * QUERY_ROW + own * 2);
      if (!ROUTED) rows.start = *reinterpret_cast<const uint2*>(start + about.start * QUERY_ROW + own * 2);
      uint2 words = query_of(rows, ROUTED ? about.share : 0, of_load);
      query[r][0] = words.x;
      query[r][1] = words.y;
    }

    float to_attended[2][4] = {};
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      Word given[4], pointer_tile[4];
      load4(given, given_rows + as_states + t * 32);
      load4_turned(pointer_tile, head_pointers + t * TILE);
      multiply(to_attended[0], given, pointer_tile[0], pointer_tile[1]);
      multiply(to_attended[1], given, pointer_tile[2], pointer_tile[3]);
    }
    Word upstream[2][2];
    float logsum[2][2], shift[2][2];  // of states 2q and 2q + 1 of either half of the group, with a minus
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float weight = stage.about[begin + g + 8 * r].weight;
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = to_attended[i / 2][2 * r + i % 2] * weight;
      upstream[r][0] = packed(x[0], x[1]);
      upstream[r][1] = packed(x[2], x[3]);
      uint2 read = *reinterpret_cast<const uint2*>(stage.read[begin + g + 8 * r] + own * 2);
      float sum = -first_of(read.x) * x[0] - second_of(read.x) * x[1];
      sum = sum - first_of(read.y) * x[2] - second_of(read.y) * x[3];
      sum += from_neighbour(sum, 1);
      sum += from_neighbour(sum, 2);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        shift[r][i] = from_lane(sum, 8 * q + 4 * i);
        logsum[r][i] = -stage.logsum[begin + 8 * r + 2 * q + i][head];
      }
    }
    Word turned_upstream[2][2], turned_query[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        turned_upstream[i][r] = turned(upstream[r][i]);
        turned_query[i][r] = turned(query[r][i]);
      }
    }

    float to_query[2][4] = {};
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      Word key_tile[4], value_tile[4], turned_keys[4], mask[4], attention[4], to_match[4];
      load4(key_tile, head_keys + t * TILE);
      load4(value_tile, head_values + t * TILE);
      load4_turned(mask, given_rows + as_nodes + t * 32);
      float match[2][4], change[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float *l = logsum[r], *s = shift[r];
        multiply(match[r], key_tile, query[r][0], query[r][1], l[0], l[1], l[0], l[1]);
        multiply(change[r], value_tile, upstream[r][0], upstream[r][1], s[0], s[1], s[0], s[1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float *m = match[i / 2] + i % 2 * 2, *c = change[i / 2] + i % 2 * 2;
        attention[i] = packed(exp2_of(m[0]), exp2_of(m[1])) & nonzero(mask[i]);
        to_match[i] = product(attention[i], packed(c[0], c[1]));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        multiply(to_value[t][i], attention, turned_upstream[i][0], turned_upstream[i][1]);
        multiply(to_key[t][i], to_match, turned_query[i][0], turned_query[i][1]);
      }
      Word by_states[4] = {turned(to_match[0]), turned(to_match[2]), turned(to_match[1]), turned(to_match[3])};
      load4_turned(turned_keys, head_keys + t * TILE);
      multiply(to_query[0], by_states, turned_keys[0], turned_keys[1]);
      multiply(to_query[1], by_states, turned_keys[2], turned_keys[3]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float x[4] = {to_query[0][2 * r], to_query[0][2 * r + 1], to_query[1][2 * r], to_query[1][2 * r + 1]};
      const About about = stage.about[begin + g + 8 * r];
      if (about.weight != 0) {
        grow4(to_last + static_cast<int>(about.current) * (HEADS * WIDTH), x);
        if (!ROUTED) grow4(to_start + about.start * (HEADS * WIDTH), x);
      }
#pragma unroll
      for (int i = 0; ROUTED && i < 4; ++i) to_load[i] += about.share * x[i];
    }
  }

  constexpr float BACK = 1 / LOG2_E;  // queries were multiplied by it
#pragma unroll
  for (int t = 0; t < TILES; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int node = 16 * t + g + 8 * r, i = 2 * r;
      if (node >= count) continue;
      Word* row = to_nodes + ((instance * count + node) * GROUPS + 1) * WORDS + own / 2;
      *reinterpret_cast<uint2*>(row) = make_uint2(packed(to_key[t][0][i] * BACK, to_key[t][0][i + 1] * BACK),
                                                  packed(to_key[t][1][i] * BACK, to_key[t][1][i + 1] * BACK));
      *reinterpret_cast<uint2*>(row + WORDS) = make_uint2(packed(to_value[t][0][i], to_value[t][0][i + 1]),
                                                          packed(to_value[t][1][i], to_value[t][1][i + 1]));
    }
  }
  if (ROUTED) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) to_load[i] += from_neighbour(to_load[i], distance);
    }
    float4* to = reinterpret_cast<float4*>(to_load_query + instance * (HEADS * WIDTH) + own);
    if (g == 0) *to = make_float4(to_load[0], to_load[1], to_load[2], to_load[3]);
  }
}

KERNEL(32 * HEADS, 2)
pointer_gradient(const long long* __restrict__ actions,  // [B, P, T]
                 const float* __restrict__ weights,      // [B, P]
                 const Word* __restrict__ tape,          // [B, P, T - 1, NODES]
                 const Word* __restrict__ attended,      // [B, P, T - 1, D]
                 const int* __restrict__ lengths,        // [B, P]
                 Word* to_nodes,                         // out [B, N, G, D]: pointers
                 float* to_offset,                       // out [B, N]
                 int tours, int count, int longest) {
  SHARED(memory);
  Stage* stages = reinterpret_cast<Stage*>(memory);
  Tours& of_tours = *reinterpret_cast<Tours*>(stages + STAGES);
  const int lane = threadIdx.x % 32, head = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const long long instance = blockIdx.y;
  const States states = states_of(instance, lengths, weights, actions, tours, longest, of_tours);
  block_together();

  const int as_nodes = nodes_first(lane), as_read = lane % 16 * READ_ROW + head * WIDTH * 2 + lane / 16 * 16;
  float to_pointer[TILES][2][4], to_offsets[4] = {0, 0, 0, 0};
#pragma unroll
  for (int t = 0; t < TILES; ++t)
#pragma unroll
    for (int i = 0; i < 8; ++i) to_pointer[t][i / 4][i % 4] = 0;
  auto copy = [&](Stage& to, int first) {
    copy_states<false>(to, states, first, tape, attended, nullptr, nullptr, nullptr);
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) copy(stages[i], i * STAGE);

  int slot = 0;
#pragma unroll 1
  for (int base = 0; base < states.total; base += GROUP) {
    const int begin = base % STAGE;
    const Stage& stage = stage_of(stages, base, slot, copy);

    float weight[2][2];  // of states 2q and 2q + 1 of either half of the group
#pragma unroll
    for (int i = 0; i < 4; ++i) weight[i / 2][i % 2] = stage.about[begin + i / 2 * 8 + 2 * q + i % 2].weight;
    Word weighted[4], split[2];
    load4_turned(weighted, stage.read[begin] + as_read);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      weighted[i] = packed(first_of(weighted[i]) * weight[i % 2][0], second_of(weighted[i]) * weight[i % 2][1]);
    // The offsets' right factor has the weights in two columns: rounded, and what that leaves.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Word most = packed(weight[i][0], weight[i][1]);
      split[i] = g == 0 ? most : g == 1 ? packed(weight[i][0] - first_of(most), weight[i][1] - second_of(most)) : 0;
    }
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      Word given[4];
      load4_turned(given, stage.tape[begin] + as_nodes + t * 32);
      multiply(to_pointer[t][0], given, weighted[0], weighted[1]);
      multiply(to_pointer[t][1], given, weighted[2], weighted[3]);
      if (t == head) multiply(to_offsets, given, split[0], split[1]);
    }
  }

#pragma unroll
  for (int t = 0; t < TILES; ++t) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int node = 16 * t + g + 8 * r;
      if (node >= count) continue;
      Word* row = to_nodes + ((instance * count + node) * GROUPS + 3) * WORDS + head * WIDTH / 2;
      row[q] = packed(to_pointer[t][0][2 * r], to_pointer[t][0][2 * r + 1]);
      row[q + 4] = packed(to_pointer[t][1][2 * r], to_pointer[t][1][2 * r + 1]);
      if (t == head && q == 0) to_offset[instance * count + node] = to_offsets[2 * r] + to_offsets[2 * r + 1];
    }
  }
}
