// What the gradient's kernels know of the decisions of one instance's tours: its states, in the order of steps, so that
// neighbours are of different tours. Some are copied to shared memory while earlier ones are in use.
#pragma once

#include "nodes.cuh"

constexpr int GROUP = 16;                 // states that a warp takes at once
constexpr int STAGE = 2 * GROUP;          // states that are copied at once, by 8 threads each
constexpr int STAGES = 3;                 // of them in shared memory
constexpr int TAPE_ROW = NODES * 2 + 16;  // bytes: so eight rows are read without a conflict
constexpr int READ_ROW = WORDS * 4 + 16;
constexpr int MOST_TOURS = 16 * TILES;

// What is known of a state besides; zeros where there is none.
struct alignas(16) About {
  long long current;
  float weight;  // its tour's
  union {
    float share;  // CVRP
    int start;    // TSP
  };
};

struct Stage {
  alignas(16) unsigned char tape[STAGE][TAPE_ROW];
  unsigned char read[STAGE][READ_ROW];  // what the heads read of the values
  float logsum[STAGE][HEADS];
  About about[STAGE];
};

// Of one instance.
struct Tours {
  int steps[MOST_TOURS];
  int start[MOST_TOURS];
  float weight[MOST_TOURS];
};

struct States {
  int tours, longest, total;
  Word inverse;     // of the number of tours, times two to the power of 31
  long long first;  // tour of the instance
  const Tours& of;

  // Which tour's decision a state is, which of its decisions, and whether there is such a state.
  DEVICE bool locate(int state, int& tour, int& step) const {
    step = static_cast<int>(static_cast<Words>(state) * inverse >> 31);
    tour = state - step * tours;
    return step < of.steps[tour];
  }
};

// The states of an instance. All of a block's threads take part, and must wait for each other before they use them.
DEVICE States states_of(long long instance, const int* lengths, const float* weights, const long long* actions,
                        int tours, int longest, Tours& of) {
  long long first = instance * tours;
  int most = 0;
  for (int tour = threadIdx.x; tour < tours; tour += blockDim.x) {
    of.steps[tour] = lengths[first + tour] - 1;
    of.start[tour] = static_cast<int>(actions[(first + tour) * longest]);
    of.weight[tour] = weights[first + tour];
  }
  for (int tour = threadIdx.x % 32; tour < tours; tour += 32) most = max(most, lengths[first + tour] - 1);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) most = max(most, from_neighbour(most, distance));
  return {tours, longest, most * tours, ((1u << 31) - 1) / static_cast<Word>(tours) + 1, first, of};
}

// Begins to copy the states of a stage; zeros where there is none.
template <bool WHOLE>
DEVICE void copy_states(Stage& to, const States& states, int first, const Word* tape, const Word* attended,
                        const float* logsums, const long long* actions, const float* loads) {
  int row = threadIdx.x / 8, part = threadIdx.x % 8, tour, step;
  bool real = states.locate(first + row, tour, step);
  if (!real) tour = step = 0;
  long long place = (states.first + tour) * (states.longest - 1) + step;
  const Word* tape_row = tape + place * (NODES / 2);
#pragma unroll
  for (int chunk = 0; chunk < 2 * TILES; chunk += 8) {
    if (chunk + part < 2 * TILES) copy<16>(to.tape[row] + (chunk + part) * 16, tape_row + (chunk + part) * 4, real);
  }
  const Word* read_row = attended + place * WORDS + part * 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) copy<16>(to.read[row] + half * 128 + part * 16, read_row + half * 32, real);
  if (WHOLE) {
    if (part < 2) copy<16>(&to.logsum[row][part * 4], logsums + place * HEADS + part * 4, real);
    About& about = to.about[row];
    if (part == 2) copy<8>(&about.current, actions + (states.first + tour) * states.longest + step, real);
    if (ROUTED && part == 3) copy<4>(&about.share, loads + place, real);
    if (!ROUTED && part == 3) about.start = states.of.start[tour];
  }
  if (part == 4) to.about[row].weight = real ? states.of.weight[tour] : 0;
  copies_begun();
}

// Waits for the group of states that begins at `base`, and says which stage it is in; `copy` begins to fill another,
// with the states from some number on. `slot` is the stage in use, at first 0.
template <class Copy>
DEVICE const Stage& stage_of(Stage* stages, int base, int& slot, Copy copy) {
  if (base % STAGE == 0) {
    copies_done<STAGES - 2>();
    block_together();
    copy(stages[slot == 0 ? STAGES - 1 : slot - 1], base + (STAGES - 1) * STAGE);
  }
  const Stage& stage = stages[slot];
  if (base % STAGE == STAGE - GROUP) slot = slot == STAGES - 1 ? 0 : slot + 1;
  return stage;
}

// Where a lane's row of four matrices of 8 x 8 of a group's first nodes starts on the tape: as the left factor [states,
// nodes], and, turned, as the left factor [nodes, states].
DEVICE int states_first(int lane) { return lane % 16 * TAPE_ROW + lane / 16 * 16; }
DEVICE int nodes_first(int lane) { return (lane / 16 * 8 + lane % 8) * TAPE_ROW + lane / 8 % 2 * 16; }
