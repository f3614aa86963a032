// Tours, and what the gradient of sampled ones needs: a block has the nodes of one instance in shared memory, from the
// first decision to the last, and each of its warps makes 16 tours without waiting for the others.
//
// A warp's tours are the rows of its matrices, nodes their columns. A lane keeps what it needs of rows g and g + 8, and
// of the columns those of OWN neighbouring nodes, so that what it writes of them lies together.
//
// Compiled for TILES, ROUTED and CLIP; with SAMPLE=0 the best node is always taken, with RECORD=0 nothing is recorded.

#include "nodes.cuh"

#ifndef SAMPLE
#define SAMPLE 1
#endif
#ifndef RECORD
#define RECORD 1
#endif
static_assert(SAMPLE || !RECORD, "tours of the best nodes cannot be recorded");
static_assert(!HALF || !RECORD, "a record is in bfloat16");

constexpr int OWN = NODES / 4;
constexpr int PAIR = 2;  // heads at a time: while one of them waits, the other goes on
constexpr Word ONES = HALF ? 0x3c003c00u : 0x3f803f80u;
// Exponentials are relative to START's. Where their sum is not between these, they are taken again, relative to the
// largest. With HALF none can be above 65504, and they are multiples of 6e-8, which is next to nothing beside the sum.
constexpr float START = HALF ? 3 : 0, LEAST = HALF ? 1e-3f : 1e-30f, MOST = 1e30f;
constexpr float BEYOND = 9.011f;  // of larger scores the hyperbolic tangent is one in single precision
constexpr int NOBODY = 1 << 20;
constexpr float LN_2 = 0.6931471805599453f;

struct ByLane {  // which node is a column
  DEVICE int operator()(int column) const { return column % 8 / 2 * OWN + column / 8 * 2 + column % 2; }
};

// Two numbers that depend on a counter and a key alone (Philox 4x32-10), from zero to less than one.
DEVICE float2 uniform_numbers(Word c0, Word c1, Word c2, Words key) {
  Word c3 = 0, k0 = static_cast<Word>(key), k1 = static_cast<Word>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    Word high0 = upper(0xd2511f53u, c0), low0 = 0xd2511f53u * c0;
    Word high1 = upper(0xcd9e8d57u, c2), low1 = 0xcd9e8d57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return make_float2((c0 >> 8) * 0x1p-24f, (c1 >> 8) * 0x1p-24f);
}

DEVICE Word bits_below(int count) { return count <= 0 ? 0 : count >= 32 ? ~0u : (1u << count) - 1; }

// For two bits all bits of the two halves of a word.
DEVICE Word halves(Word bits, int first) {
  return (bits >> first & 1) * 0xffffu | (bits >> (first + 1) & 1) * 0xffff0000u;
}

DEVICE float sum_of_four(float x, int lane, int q, float& before) {
  float x0 = from_lane(x, lane & ~3), x1 = from_lane(x, (lane & ~3) + 1);
  float x2 = from_lane(x, (lane & ~3) + 2), x3 = from_lane(x, (lane & ~3) + 3);
  before = q == 0 ? 0 : q == 1 ? x0 : q == 2 ? x0 + x1 : x0 + x1 + x2;
  return x0 + x1 + x2 + x3;
}

// The slope of a clipped score, given half of how far its hyperbolic tangent is below one; never zero.
DEVICE float slope_of(float half) { return half * (4 * CLIP) * (1 - half) + 1e-20f; }

KERNEL(32 * TILES, TILES < 7 ? 2 : 1)
rollout(const Word* __restrict__ nodes,            // [B, N, G, D]
        const float* __restrict__ load_query,      // [D]: what a full load adds to the query (CVRP)
        const float* __restrict__ offsets,         // [B, N]: of the scores
        const long long* __restrict__ demands,     // [B, N] (CVRP)
        const long long* __restrict__ capacities,  // [B] (CVRP)
        const long long* __restrict__ starts,      // [B, P]
        const Words* __restrict__ seed,            // [1]
        long long* actions,                        // out [B, P, T], zero before
        float* log_probs,                          // out [B, P], with RECORD, as the last four
        int* lengths,                              // out [B, P]: actions of each tour; zero if it did not end
        Word* tape,       // out [B, P, T - 1, NODES]: gradients of the log-probabilities for the scores, in bfloat16:
                          // minus zero where blocked, never zero elsewhere; unset after a tour's end, as the next three
        Word* attended,   // out [B, P, T - 1, D]: what the heads read of the values, in bfloat16
        float* logsums,   // out [B, P, T - 1, H]: of the exponentials (to base 2) of the attention scores
        float* loads,     // out [B, P, T - 1]: as shares of the capacity (CVRP)
        int tours, int count, int longest) {
  SHARED(memory);
  unsigned char *keys = memory, *values = keys + HEADS * MATRIX, *pointers = values + HEADS * MATRIX;
  float* offset = reinterpret_cast<float*>(pointers + HEADS * MATRIX);
  float* of_load = offset + NODES;
  int* demand = reinterpret_cast<int*>(of_load + HEADS * WIDTH);
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  const long long instance = blockIdx.y;
  nodes += instance * count * GROUPS * WORDS;
  spread(keys, nodes, 1, count, ByLane());
  spread(values, nodes, 2, count, ByLane());
  spread(pointers, nodes, 3, count, ByLane());
  for (int node = threadIdx.x; node < NODES; node += blockDim.x) {
    offset[node] = node < count ? offsets[instance * count + node] : 0;
    if (ROUTED) demand[node] = node < count ? static_cast<int>(demands[instance * count + node]) : 0;
  }
  for (int i = threadIdx.x; ROUTED && i < HEADS * WIDTH; i += blockDim.x) of_load[i] = load_query[i];
  block_together();

  const int capacity = ROUTED ? static_cast<int>(capacities[instance]) : 0;
  const float of_capacity = ROUTED ? 1.0f / capacity : 0;
  const Words key = *seed;
  const int first_tour = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 16;
  const Word exist = bits_below(min(count - q * OWN, OWN));
  const bool has_depot = ROUTED && q == 0;
  long long place[2];
  bool real[2], sound[2];
  int current[2], start[2], left[2], load[2], length[2];
  Word open[2];  // customers to serve, of the lane's own
  float log_prob[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    int tour = first_tour + g + 8 * r;
    real[r] = tour < tours;
    sound[r] = true;
    place[r] = instance * tours + tour;
    current[r] = start[r] = real[r] ? static_cast<int>(starts[place[r]]) : count > 1;
    if (q == r && real[r]) actions[place[r] * longest] = current[r];
    open[r] = exist & ~(has_depot ? 1u : 0u);
    int own = current[r] - q * OWN;
    if (own >= 0 && own < OWN) open[r] &= ~(1u << own);
    left[r] = count - 2;
    load[r] = ROUTED ? capacity - demand[current[r]] : 0;
    length[r] = 1;
    log_prob[r] = 0;
  }
  const int by_rows = rows_first(lane), by_halves = halves_first(lane);

  bool going = ROUTED ? longest > 1 : count > 1;
  for (int step = 1; going; ++step) {
    Word allowed[2];
    float share[2] = {0, 0};
    bool idle[2];  // rows whose next decision does not count; they are not told apart for a record
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      idle[r] = !RECORD && (!real[r] || (ROUTED && left[r] == 0 && current[r] == 0));
      allowed[r] = open[r];
      if (ROUTED) {
        share[r] = load[r] * of_capacity;
        Word fits = 0;
#pragma unroll
        for (int own = 0; own < OWN; ++own) fits |= (demand[q * OWN + own] <= load[r] ? 1u : 0u) << own;
        allowed[r] &= fits;
        if (has_depot && (current[r] != 0 || left[r] == 0)) allowed[r] |= 1;
      }
    }
    Word mask[TILES][4];
    float score[2 * TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) mask[t][i] = halves(allowed[i % 2], 4 * t + i / 2 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) score[2 * t][i] = score[2 * t + 1][i] = 0;
    }

    Rows rows[PAIR][2];
#pragma unroll
    for (int i = 0; i < 2 * PAIR; ++i) rows[i / 2][i % 2] = rows_of(nodes, current[i % 2], start[i % 2], i / 2, q);
#pragma unroll 1
    for (int first = 0; first < HEADS; first += PAIR) {
      const unsigned char* first_keys = keys + first * MATRIX + by_rows;
      const unsigned char* first_values = values + first * MATRIX + by_halves;
      const unsigned char* first_pointers = pointers + first * MATRIX + by_rows;
      Word query[PAIR][4];
#pragma unroll
      for (int h = 0; h < PAIR; ++h) {
        float4 plus = make_float4(0, 0, 0, 0);
        if (ROUTED) plus = *reinterpret_cast<const float4*>(of_load + (first + h) * WIDTH + 4 * q);
        uint2 upper_row = query_of(rows[h][0], share[0], plus), lower_row = query_of(rows[h][1], share[1], plus);
        query[h][0] = upper_row.x;
        query[h][1] = lower_row.x;
        query[h][2] = upper_row.y;
        query[h][3] = lower_row.y;
      }
      const int next = min(first + PAIR, HEADS - PAIR);
#pragma unroll
      for (int i = 0; i < 2 * PAIR; ++i)
        rows[i / 2][i % 2] = rows_of(nodes, current[i % 2], start[i % 2], next + i / 2, q);

      float highest[PAIR][2];  // what exponentials are relative to
#pragma unroll
      for (int i = 0; i < 2 * PAIR; ++i) highest[i / 2][i % 2] = START;
      float sum[PAIR][4], sums_read[PAIR][2][4];
      for (bool again = false;; again = true) {
#pragma unroll
        for (int h = 0; h < PAIR; ++h)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[h][i] = sums_read[h][0][i] = sums_read[h][1][i] = 0;
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
#pragma unroll
          for (int h = 0; h < PAIR; ++h) {
            const float one = 0 - highest[h][0], other = 0 - highest[h][1];
            Word key_tile[4], value_tile[4];
            load4(key_tile, first_keys + h * MATRIX + t * TILE);
            load4_turned(value_tile, first_values + h * MATRIX + t * TILE);
            float left_match[4], right_match[4];
            multiply(left_match, query[h], key_tile[0], key_tile[1], one, one, other, other);
            multiply(right_match, query[h], key_tile[2], key_tile[3], one, one, other, other);
            Word attention[4] = {packed(exp2_of(left_match[0]), exp2_of(left_match[1])) & mask[t][0],
                                 packed(exp2_of(left_match[2]), exp2_of(left_match[3])) & mask[t][1],
                                 packed(exp2_of(right_match[0]), exp2_of(right_match[1])) & mask[t][2],
                                 packed(exp2_of(right_match[2]), exp2_of(right_match[3])) & mask[t][3]};
            multiply(sums_read[h][0], attention, value_tile[0], value_tile[1]);
            multiply(sums_read[h][1], attention, value_tile[2], value_tile[3]);
            multiply(sum[h], attention, ONES, ONES);
          }
        }
        bool fine = true;
#pragma unroll
        for (int h = 0; h < PAIR; ++h)
#pragma unroll
          for (int r = 0; r < 2; ++r) fine = fine && (idle[r] || (sum[h][2 * r] > LEAST && sum[h][2 * r] < MOST));
        if (again || !anywhere(!fine)) break;
#pragma unroll
        for (int h = 0; h < PAIR; ++h) {
          highest[h][0] = highest[h][1] = -1e30f;
#pragma unroll
          for (int t = 0; t < TILES; ++t) {
            Word key_tile[4];
            load4(key_tile, first_keys + h * MATRIX + t * TILE);
            float match[2][4] = {};
            multiply(match[0], query[h], key_tile[0], key_tile[1]);
            multiply(match[1], query[h], key_tile[2], key_tile[3]);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              int r = i / 2 % 2;
              if (allowed[r] >> (4 * t + i / 4 * 2 + i % 2) & 1)
                highest[h][r] = fmaxf(highest[h][r], match[i / 4][i % 4]);
            }
          }
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            highest[h][r] = fmaxf(highest[h][r], from_neighbour(highest[h][r], 1));
            highest[h][r] = fmaxf(highest[h][r], from_neighbour(highest[h][r], 2));
          }
        }
      }
#pragma unroll
      for (int h = 0; h < PAIR; ++h) {
        float one = inverse_of(fmaxf(sum[h][0], LEAST)), other = inverse_of(fmaxf(sum[h][2], LEAST));
        Word read[4] = {packed(sums_read[h][0][0] * one, sums_read[h][0][1] * one),
                        packed(sums_read[h][0][2] * other, sums_read[h][0][3] * other),
                        packed(sums_read[h][1][0] * one, sums_read[h][1][1] * one),
                        packed(sums_read[h][1][2] * other, sums_read[h][1][3] * other)};
        const int head = first + h;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          long long at = (place[r] * (longest - 1) + step - 1) * WORDS + head * WIDTH / 2 + q * 2;
          if (RECORD && real[r]) *reinterpret_cast<uint2*>(attended + at) = make_uint2(read[r], read[r + 2]);
        }
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          Word pointer_tile[4];
          load4(pointer_tile, first_pointers + h * MATRIX + t * TILE);
          multiply(score[2 * t], read, pointer_tile[0], pointer_tile[1]);
          multiply(score[2 * t + 1], read, pointer_tile[2], pointer_tile[3]);
        }
        if (RECORD && q == head % 4) {
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            long long at = (place[r] * (longest - 1) + step - 1) * HEADS + head;
            if (real[r]) logsums[at] = highest[h][r] + log2_of(sum[h][2 * r]);
          }
        }
      }
    }

    float2 uniform = make_float2(0, 0);
    if (SAMPLE) uniform = uniform_numbers(first_tour + g, step, static_cast<Word>(instance), key);
    bool unfinished = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float chance[OWN], total, picked;
      int action;
      if (SAMPLE) {
        // Half of how far scores' hyperbolic tangents are below one, and the policy times a constant.
        float sum = 0;
#pragma unroll
        for (int own = 0; own < OWN; ++own) {
          float& half = score[own / 2][2 * r + own % 2];
          half = inverse_of(1 + exp2_of((half + offset[q * OWN + own]) * (2 * LOG2_E)));
          chance[own] = allowed[r] >> own & 1 ? exp2_of(half * (-2 * CLIP * LOG2_E)) : 0;
          sum += chance[own];
        }
        // The first allowed node whose cumulated probability passes a uniform number, clear of rounding at the end.
        float before;
        total = sum_of_four(sum, lane, q, before);
        float threshold = fmaxf((r == 0 ? uniform.x : uniform.y) * total * (1 - 2e-6f) - before, 0.f);
        float cumulated = 0;
        picked = score[0][2 * r];
        int passed = 0;
#pragma unroll
        for (int own = 0; own < OWN; ++own) {
          cumulated += chance[own];
          if (cumulated <= threshold) {
            ++passed;
            picked = score[min(own + 1, OWN - 1) / 2][2 * r + min(own + 1, OWN - 1) % 2];
          }
        }
        action = passed < OWN && sum > 0 ? q * OWN + passed : NOBODY;
      } else {
        // The first of the best allowed nodes.
        float best = -1e30f, checked = 0;
        action = NOBODY;
#pragma unroll
        for (int own = 0; own < OWN; ++own) {
          float exact = score[own / 2][2 * r + own % 2] + offset[q * OWN + own];
          exact = allowed[r] >> own & 1 ? exact : -1e30f;
          checked += exact;
          float clipped = fminf(exact, BEYOND);
          if (clipped > best) {
            best = clipped;
            action = q * OWN + own;
          }
        }
        float highest = fmaxf(best, from_neighbour(best, 1));
        highest = fmaxf(highest, from_neighbour(highest, 2));
        if (best < highest) action = NOBODY;
        total = checked == checked ? 1 : 0;  // all are numbers
      }
      action = min(action, from_neighbour(action, 1));
      action = min(action, from_neighbour(action, 2));
      if (idle[r]) {
        total = 1;
        action = 0;
      }
      // Not where all are blocked, or weights are no numbers. If it does not sample a lane knows it of its own nodes.
      sound[r] = sound[r] && total > 0 && action < NOBODY;
      if (SAMPLE ? !sound[r] : action == NOBODY) action = 0;
      int own = action - q * OWN;
      bool is_own = own >= 0 && own < OWN;
      if (RECORD) picked = from_lane(picked, (lane & ~3) + action / OWN);

      bool waiting = ROUTED && left[r] == 0 && current[r] == 0;  // a finished tour stays at the depot
      if (!waiting) {
        if (RECORD) log_prob[r] -= 2 * CLIP * picked + log2_of(total) * LN_2;
        ++length[r];
      }
      long long at = place[r] * (longest - 1) + step - 1;
      if (RECORD && real[r] && !waiting) {
        uint2* cells = reinterpret_cast<uint2*>(tape + at * (NODES / 2) + q * (OWN / 2));
        float minus = -inverse_of(total);
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          Word words[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float gradient[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              gradient[j] = chance[4 * t + 2 * i + j] * minus * slope_of(score[2 * t + i][2 * r + j]);
            }
            Word here = mask[t][2 * i + r];
            words[i] = (packed(gradient[0], gradient[1]) & here) | (~here & 0x80008000u);
          }
          cells[t] = make_uint2(words[0], words[1]);
        }
        if (is_own) {
          float gradient = fmaxf(slope_of(picked) * (1 + minus * exp2_of(picked * (-2 * CLIP * LOG2_E))), 1e-30f);
          reinterpret_cast<unsigned short*>(cells)[own] = static_cast<unsigned short>(packed(gradient, 0));
        }
        if (ROUTED && q == 2) loads[at] = share[r];
      }
      if (q == r && real[r]) actions[place[r] * longest + step] = action;
      if (is_own && (!ROUTED || action > 0)) open[r] &= ~(1u << own);
      current[r] = action;
      if (ROUTED) {
        left[r] -= action > 0;
        load[r] = action == 0 ? capacity : load[r] - demand[action];
        unfinished |= real[r] && (left[r] > 0 || action > 0);
      }
    }
    going = ROUTED ? step + 1 < longest && anywhere(unfinished) : step + 1 < count;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!SAMPLE) {
      sound[r] = min(static_cast<int>(sound[r]), from_neighbour(static_cast<int>(sound[r]), 1));
      sound[r] = min(static_cast<int>(sound[r]), from_neighbour(static_cast<int>(sound[r]), 2));
    }
    if (q != 0 || !real[r]) continue;
    if (RECORD) log_probs[place[r]] = log_prob[r];
    if (ROUTED) sound[r] = sound[r] && left[r] == 0 && current[r] == 0;
    lengths[place[r]] = sound[r] ? length[r] : 0;
  }
}
