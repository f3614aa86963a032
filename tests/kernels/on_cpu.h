// The primitives of warp.cuh on a CPU, so that tests need no device. Included by it; one source file makes a library.
//
// Each thread of a block is a fiber. The lanes of a warp run one after another, each until it comes to an operation of
// the warp; the last to come does it for all and goes on, and the others follow in the opposite order. Warps do so
// from one barrier of the block to the next. So no order is the usual one, and what lacks a barrier will differ.
//
// Memory that was not written reads as NaN: shared memory at a block's start, and what a copy under way will fill.
// Behind shared memory and each argument lie pages that must not be touched, and a few bytes that must not be written.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#define DEVICE inline
#define KERNEL(threads, blocks) extern "C" __attribute__((visibility("default"))) void
#define SHARED(name) [[maybe_unused]] unsigned char* const& name = on_cpu::shared

// What CUDA defines.

struct Dimensions {
  unsigned x, y, z;
};
static Dimensions threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
DEVICE uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
DEVICE float2 make_float2(float x, float y) { return {x, y}; }
DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <class T>
DEVICE T __ldg(const T* at) {
  return *at;
}

// Of a number and NaN, the number.
template <class X, class Y, class Z = std::common_type_t<X, Y>>
DEVICE Z min(X x, Y y) {
  return Z(y) < Z(x) || x != x ? Z(y) : Z(x);
}
template <class X, class Y, class Z = std::common_type_t<X, Y>>
DEVICE Z max(X x, Y y) {
  return Z(x) < Z(y) || x != x ? Z(y) : Z(x);
}

DEVICE float float_of(Word bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

namespace on_cpu {

constexpr int LANES = 32, MAX_THREADS = 1024, MAX_ARGUMENTS = 24, UNWRITTEN = 0xff;
constexpr size_t PAGE = 65536, STACK = 4 * PAGE;  // of any size that systems have

// Where an operation is in the source.
struct Place {
  const char* file;
  int line;
};
#define DREE_PLACE on_cpu::Place place = {__builtin_FILE(), __builtin_LINE()}

struct Copy {
  void* to;
  const void* from;
  int bytes;
  bool valid;
  long group;
};

struct Thread {
  unsigned index;
  bool begun;
  ucontext_t start;
  jmp_buf here;
  std::vector<Copy> copies;  // that are under way
  long groups;               // that are closed
  const char* last;          // operation it came to
  Place place;
};

struct Warp {
  int arrived, step, turn;     // step: to the lane that runs next; turn: the lane to go on with after a barrier
  const char* operation;       // that `arrived` of its lanes have come to
  Place place;
  void* operands[LANES];
};

static Thread threads[MAX_THREADS];
static Warp warps[MAX_THREADS / LANES];
static int arrived, step;  // as in a warp, of the block's warps
static const Warp* first;  // of those that arrived
static Thread* me;
static jmp_buf home;
static unsigned char* shared;
static size_t shared_bytes;
static void* kernel;
static long words[MAX_ARGUMENTS];
static char* message;
static size_t message_size;
static bool failed;

constexpr const char* BARRIER = "block_together";
constexpr const char* END = "the kernel's end";

// The launch ends; it says where, and why.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* why, ...) {
  failed = true;
  const char* slash = me->place.file ? strrchr(me->place.file, '/') : nullptr;
  int length = snprintf(message, message_size, "block (%u, %u), thread %u, at or after %s", blockIdx.x, blockIdx.y,
                        me->index, me->last);
  if (me->place.line)
    length += snprintf(message + length, message_size - length, " in %s:%d", slash ? slash + 1 : me->place.file,
                       me->place.line);
  length += snprintf(message + length, message_size - length, ": ");
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(message + length, message_size - length, why, arguments);
  va_end(arguments);
  _longjmp(home, 1);
}

[[noreturn]] inline void go_on_as(Thread& thread) {
  me = &thread;
  threadIdx.x = thread.index;
  if (thread.begun) _longjmp(thread.here, 1);
  thread.begun = true;
  setcontext(&thread.start);
  __builtin_unreachable();
}

// Until another thread goes on as this one. swapcontext would ask the system for each switch.
static __attribute__((noinline)) void pause_for(Thread& next) {
  if (!_setjmp(me->here)) go_on_as(next);
}

// A warp at a barrier or the kernel's end.
inline void arrive(Warp& warp) {
  bool ends = warp.operation == END;
  if (arrived && ends != (first->operation == END)) {
    const Warp &waits = ends ? *first : warp, &ended = ends ? warp : *first;
    fail("warp %d waits at %s in line %d, warp %d has ended", int(&waits - warps), BARRIER, waits.place.line,
         int(&ended - warps));
  }
  if (!arrived) first = &warp;
  if (++arrived < int(blockDim.x) / LANES) {
    Warp& next = *(&warp + step);
    return pause_for(threads[(&next - warps) * LANES + next.turn]);
  }
  if (ends) _longjmp(home, 1);
  arrived = 0;
  step = -step;
}

// An operation of the warp: `work` sees what each lane gave, and writes what each gets.
template <class Operands, class Work>
inline void together(const char* operation, Place place, Operands& mine, Work work) {
  Warp& warp = warps[me->index / LANES];
  int lane = me->index % LANES;
  me->last = operation;
  me->place = place;
  if (!warp.arrived) {
    warp.operation = operation;
    warp.place = place;
  } else if (warp.operation != operation || warp.place.line != place.line) {
    fail("lanes of a warp part: %d of them came to %s in line %d", warp.arrived, warp.operation, warp.place.line);
  }
  warp.operands[lane] = &mine;
  if (++warp.arrived < LANES) return pause_for(threads[me->index + warp.step]);
  work(reinterpret_cast<Operands**>(warp.operands));
  warp.arrived = 0;
  warp.step = -warp.step;
  warp.turn = lane;
  if (operation == BARRIER || operation == END) arrive(warp);
}

template <class Operands>
inline void nothing(Operands**) {}

inline void begin() {
  long* w = words;  // all in registers and on the stack: a kernel takes what it knows of
  reinterpret_cast<void (*)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
                            long, long, long, long, long, long, long, long, long)>(kernel)(
      w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
      w[17], w[18], w[19], w[20], w[21], w[22], w[23]);
  void* none = nullptr;
  together(END, {nullptr, 0}, none, nothing<void*>);
}

// Some memory with forbidden pages around it. It ends where they start, but for what 16 bytes of alignment leave.
struct Guarded {
  unsigned char *all, *begin;
  size_t bytes, size;

  explicit Guarded(size_t bytes_, size_t alignment = 16) : bytes(bytes_) {
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    size = room + 2 * PAGE;
    all = static_cast<unsigned char*>(mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (room) mprotect(all + PAGE, room, PROT_READ | PROT_WRITE);
    begin = all + PAGE + room - (bytes + alignment - 1) / alignment * alignment;
  }
  Guarded(Guarded&& other) : all(other.all), begin(other.begin), bytes(other.bytes), size(other.size) {
    other.all = nullptr;
  }
  ~Guarded() {
    if (all) munmap(all, size);
  }
  void clear() { memset(all + PAGE, UNWRITTEN, size - 2 * PAGE); }
  bool clear_around() const {
    auto unwritten = [](unsigned char byte) { return byte == UNWRITTEN; };
    return std::all_of(all + PAGE, begin, unwritten) && std::all_of(begin + bytes, all + size - PAGE, unwritten);
  }
  bool near(const unsigned char* at) const { return at >= all && at < all + size; }
};

// An argument's memory, or that of some which overlap.
struct Argument {
  unsigned char* original;
  Guarded copy;
  int number;  // of the first
};

static std::vector<Argument> arguments;

inline void fault(int signal, siginfo_t* about, void*) {
  auto at = static_cast<const unsigned char*>(about->si_addr);
  if (signal == SIGFPE) fail("division by zero");
  if (signal == SIGILL) fail("a misaligned address or an index beyond its array");
  if (at >= shared - PAGE && at < shared + shared_bytes + PAGE)
    fail("byte %ld of shared memory of %zu", long(at - shared), shared_bytes);
  for (const Argument& each : arguments)
    if (each.copy.near(at)) fail("byte %ld of argument %d of %zu", long(at - each.copy.begin), each.number,
                                 each.copy.bytes);
  fail("no memory is at %p, or it is misaligned", about->si_addr);
}

// Faults of the kernel are ours, and Python's again after.
struct Faults {
  static constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  std::vector<unsigned char> stack = std::vector<unsigned char>(PAGE);
  stack_t stack_before;
  struct sigaction before[4];

  Faults() {
    stack_t ours = {};
    ours.ss_sp = stack.data();
    ours.ss_size = stack.size();
    sigaltstack(&ours, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // the handler never returns
    for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &action, &before[i]);
  }
  ~Faults() {
    for (int i = 0; i < 4; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
  }
};

static __attribute__((noinline)) void run_block(unsigned char* stacks) {
  memset(shared, UNWRITTEN, shared_bytes);
  arrived = 0;
  step = 1;
  for (unsigned i = 0; i < blockDim.x; ++i) {
    Thread& thread = threads[i];
    thread.index = i;
    thread.begun = false;
    thread.copies.clear();
    thread.groups = 0;
    thread.last = "its start";
    thread.place = {};
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = stacks + i * STACK + PAGE;
    thread.start.uc_stack.ss_size = STACK - PAGE - i % LANES * 576;  // else all would share a few lines of the cache
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, begin, 0);
  }
  for (unsigned i = 0; i < blockDim.x / LANES; ++i) {
    warps[i] = {};
    warps[i].step = 1;
  }
  if (!_setjmp(home)) go_on_as(threads[0]);  // the last thread comes back here, or one that fails
}

inline float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

inline Word bits_of(float x) {
  Word bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

#if HALF
constexpr Word INFINITE = 0x7c00;

inline float low(Word word) {
  Word size = word & 0x7fff;
  float x = size < INFINITE ? float_of(size << 13) * 0x1p112f : float_of(size << 13 | 0x7f800000);
  return word & 0x8000 ? -x : x;
}

inline Word rounded(float x) {  // to the nearest, and to even between two
  if (x != x) return 0x7fff;
  Word sign = bits_of(x) >> 16 & 0x8000, size = bits_of(x) & 0x7fffffff;
  if (size >= 0x477ff000) return sign | INFINITE;
  if (size < 0x38800000) return sign | static_cast<Word>(std::nearbyint(float_of(size) * 0x1p24f));
  return sign | (((size + 0xfff + (size >> 13 & 1)) >> 13) - (112 << 10));
}
#else
constexpr Word INFINITE = 0x7f80;

inline float low(Word word) { return float_of(word << 16); }

inline Word rounded(float x) {
  if (x != x) return 0x7fff;
  Word bits = bits_of(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#endif

inline float high(Word word) { return low(word >> 16); }

inline void check_aligned(const void* at, const char* what, int bytes = 16) {
  if (reinterpret_cast<uintptr_t>(at) % bytes) fail("%s is not aligned to %d bytes", what, bytes);
}

inline void check_shared(const void* at, int bytes = 16) {
  long offset = static_cast<const unsigned char*>(at) - shared;
  if (offset < 0 || offset + bytes > long(shared_bytes))
    fail("%ld is no place in shared memory of %zu bytes", offset, shared_bytes);
  check_aligned(at, "the place in shared memory", bytes);
}

struct Load {
  Word (*words)[4];
  const unsigned char* row;
};

template <class T>
struct Exchange {
  T value, other;
  int from;
};

template <class T>
static __attribute__((noinline)) T exchanged(const char* operation, Place place, T value, int lane) {
  Exchange<T> mine = {value, value, lane};
  together(operation, place, mine, [](Exchange<T>** lanes) {
    for (int l = 0; l < LANES; ++l) lanes[l]->other = lanes[lanes[l]->from]->value;
  });
  return mine.other;
}

inline int neighbour(int distance) { return (threadIdx.x ^ distance) % LANES; }

}  // namespace on_cpu

// What warp.cuh defines. `place` is where each is called.

DEVICE Word packed(float first, float second) { return on_cpu::rounded(first) | on_cpu::rounded(second) << 16; }
DEVICE float first_of(Word word) { return on_cpu::low(word); }
DEVICE float second_of(Word word) { return on_cpu::high(word); }
DEVICE float exp2_of(float x) { return on_cpu::flushed(std::exp2(on_cpu::flushed(x))); }
DEVICE float log2_of(float x) { return std::log2(on_cpu::flushed(x)); }
DEVICE float inverse_of(float x) { return on_cpu::flushed(1 / on_cpu::flushed(x)); }

DEVICE Word product(Word x, Word y) {
  return on_cpu::rounded(on_cpu::low(x) * on_cpu::low(y)) | on_cpu::rounded(on_cpu::high(x) * on_cpu::high(y)) << 16;
}

static __attribute__((noinline)) void multiply(float (&d)[4], const Word (&a)[4], Word b0, Word b1, DREE_PLACE) {
  struct Factors {
    float (*d)[4];
    const Word (*a)[4];
    Word b[2];
  } mine = {&d, &a, {b0, b1}};
  on_cpu::together("multiply", place, mine, [](Factors** lanes) {
    float left[16][16], right[16][8], product[16][8];
    for (int l = 0; l < on_cpu::LANES; ++l) {
      const Factors& lane = *lanes[l];
      int g = l / 4, column = l % 4 * 2;
      for (int i = 0; i < 4; ++i) {
        int row = g + i % 2 * 8, at = column + i / 2 * 8;
        left[row][at] = on_cpu::low((*lane.a)[i]);
        left[row][at + 1] = on_cpu::high((*lane.a)[i]);
        product[g + i / 2 * 8][column + i % 2] = (*lane.d)[i];
      }
      for (int i = 0; i < 2; ++i) {
        right[column + i * 8][g] = on_cpu::low(lane.b[i]);
        right[column + i * 8 + 1][g] = on_cpu::high(lane.b[i]);
      }
    }
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        for (int column = 0; column < 8; ++column) product[row][column] += left[row][k] * right[k][column];
    for (int l = 0; l < on_cpu::LANES; ++l)
      for (int i = 0; i < 4; ++i) (*lanes[l]->d)[i] = product[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
  });
}

DEVICE void multiply(float (&d)[4], const Word (&a)[4], Word b0, Word b1, float c0, float c1, float c2, float c3,
                     DREE_PLACE) {
  float sums[4] = {c0, c1, c2, c3};
  multiply(sums, a, b0, b1, place);
  memcpy(d, sums, sizeof sums);
}

static __attribute__((noinline)) void load4(Word (&words)[4], const void* row, DREE_PLACE) {
  on_cpu::Load mine = {&words, static_cast<const unsigned char*>(row)};
  on_cpu::together("load4", place, mine, [](on_cpu::Load** lanes) {
    for (int l = 0; l < on_cpu::LANES; ++l) on_cpu::check_shared(lanes[l]->row);
    for (int l = 0; l < on_cpu::LANES; ++l)
      for (int i = 0; i < 4; ++i) memcpy(&(*lanes[l]->words)[i], lanes[8 * i + l / 4]->row + l % 4 * 4, 4);
  });
}

static __attribute__((noinline)) void load4_turned(Word (&words)[4], const void* row, DREE_PLACE) {
  on_cpu::Load mine = {&words, static_cast<const unsigned char*>(row)};
  on_cpu::together("load4_turned", place, mine, [](on_cpu::Load** lanes) {
    for (int l = 0; l < on_cpu::LANES; ++l) on_cpu::check_shared(lanes[l]->row);
    for (int l = 0; l < on_cpu::LANES; ++l)
      for (int i = 0; i < 4; ++i) {
        auto at = reinterpret_cast<unsigned char*>(&(*lanes[l]->words)[i]);
        for (int half = 0; half < 2; ++half)
          memcpy(at + 2 * half, lanes[8 * i + l % 4 * 2 + half]->row + l / 4 * 2, 2);
      }
  });
}

static __attribute__((noinline)) Word turned(Word word, DREE_PLACE) {
  on_cpu::Exchange<Word> mine = {word, 0, 0};
  on_cpu::together("turned", place, mine, [](on_cpu::Exchange<Word>** lanes) {
    for (int l = 0; l < on_cpu::LANES; ++l) {
      int g = l / 4, row = l % 4 * 2, shift = g % 2 * 16;
      Word first = lanes[row * 4 + g / 2]->value >> shift & 0xffff;
      Word second = lanes[row * 4 + 4 + g / 2]->value >> shift & 0xffff;
      lanes[l]->other = first | second << 16;
    }
  });
  return mine.other;
}

DEVICE Word nonzero(Word word) {
  Word bits = 0;
  for (Word half : {0xffffu, 0xffff0000u}) {
    Word size = word & half & 0x7fff7fffu, infinity = half & (on_cpu::INFINITE * 0x10001u);
    if (size && size <= infinity) bits |= half;
  }
  return bits;
}

DEVICE float from_lane(float x, int lane, DREE_PLACE) {
  return on_cpu::exchanged("from_lane", place, x, lane & (on_cpu::LANES - 1));
}
DEVICE float from_neighbour(float x, int distance, DREE_PLACE) {
  return on_cpu::exchanged("from_neighbour", place, x, on_cpu::neighbour(distance));
}
DEVICE int from_neighbour(int x, int distance, DREE_PLACE) {
  return on_cpu::exchanged("from_neighbour", place, x, on_cpu::neighbour(distance));
}

static __attribute__((noinline)) bool anywhere(bool x, DREE_PLACE) {
  bool mine = x;
  on_cpu::together("anywhere", place, mine, [](bool** lanes) {
    bool any = false;
    for (int l = 0; l < on_cpu::LANES; ++l) any |= *lanes[l];
    for (int l = 0; l < on_cpu::LANES; ++l) *lanes[l] = any;
  });
  return mine;
}

static __attribute__((noinline)) void block_together(DREE_PLACE) {
  void* none = nullptr;
  on_cpu::together(on_cpu::BARRIER, place, none, on_cpu::nothing<void*>);
}

// As late as can be; what it will fill is lost at once.
template <int BYTES>
static __attribute__((noinline)) void copy(void* to, const void* from, bool valid, DREE_PLACE) {
  on_cpu::me->last = "copy";
  on_cpu::me->place = place;
  on_cpu::check_shared(to, BYTES);
  on_cpu::check_aligned(from, "what it copies", BYTES);
  memset(to, on_cpu::UNWRITTEN, BYTES);
  on_cpu::me->copies.push_back({to, from, BYTES, valid, on_cpu::me->groups});
}

DEVICE void copies_begun() { ++on_cpu::me->groups; }

template <int LAST>
static __attribute__((noinline)) void copies_done(DREE_PLACE) {
  on_cpu::me->last = "copies_done";
  on_cpu::me->place = place;
  auto& copies = on_cpu::me->copies;
  auto copy = copies.begin();
  for (; copy != copies.end() && copy->group < on_cpu::me->groups - LAST; ++copy) {
    if (copy->valid)
      memcpy(copy->to, copy->from, copy->bytes);
    else
      memset(copy->to, 0, copy->bytes);
  }
  copies.erase(copies.begin(), copy);
}

DEVICE void grow4(float* at, const float (&by)[4], DREE_PLACE) {
  on_cpu::me->last = "grow4";
  on_cpu::me->place = place;
  on_cpu::check_aligned(at, "what grows");
  for (int i = 0; i < 4; ++i) at[i] += by[i];
}

DEVICE Word upper(Word x, Word y) { return Words(x) * y >> 32; }

// A kernel over a grid of blocks. Its arguments are words; those with sizes are addresses of so many bytes.
// Whether it ran; if not, `message` says why, and what its arguments point to is as it was.
extern "C" __attribute__((visibility("default"))) bool launch_on_cpu(void* kernel, unsigned columns, unsigned rows,
                                                                     unsigned threads, size_t shared_bytes,
                                                                     const long* words, const size_t* sizes, int count,
                                                                     char* message, size_t message_size) {
  using namespace on_cpu;
  struct Range {
    unsigned char *begin, *end;
    int number;
  };
  std::vector<Range> ranges;
  for (int i = 0; i < count; ++i) {
    on_cpu::words[i] = words[i];
    auto at = reinterpret_cast<unsigned char*>(words[i]);
    if (sizes[i]) ranges.push_back({at, at + sizes[i], i});
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& x, const Range& y) { return x.begin < y.begin; });
  std::vector<Range> apart;
  for (const Range& each : ranges) {
    if (!apart.empty() && each.begin < apart.back().end)
      apart.back().end = std::max(apart.back().end, each.end);
    else
      apart.push_back(each);
  }
  arguments.clear();
  for (const Range& each : apart) {
    Argument argument = {each.begin, Guarded(each.end - each.begin), each.number};
    argument.copy.clear();
    memcpy(argument.copy.begin, argument.original, argument.copy.bytes);
    for (int i = 0; i < count; ++i) {
      auto at = reinterpret_cast<unsigned char*>(words[i]);
      if (sizes[i] && at >= each.begin && at < each.end)
        on_cpu::words[i] = reinterpret_cast<long>(argument.copy.begin + (at - each.begin));
    }
    arguments.push_back(std::move(argument));
  }
  Guarded memory(shared_bytes, 128), stacks(threads * STACK);
  for (unsigned i = 0; i < threads; ++i) mprotect(stacks.begin + i * STACK, PAGE, PROT_NONE);
  memory.clear();
  on_cpu::kernel = kernel;
  on_cpu::shared = memory.begin;
  on_cpu::shared_bytes = shared_bytes;
  on_cpu::message = message;
  on_cpu::message_size = message_size;
  failed = false;
  gridDim = {columns, rows, 1};
  blockDim = {threads, 1, 1};
  {
    Faults faults;
    for (unsigned y = 0; y < rows && !failed; ++y)
      for (unsigned x = 0; x < columns && !failed; ++x) {
        blockIdx = {x, y, 0};
        run_block(stacks.begin);
      }
  }
  auto check_around = [&](const std::string& what, const Guarded& each) {
    if (failed || each.clear_around()) return;
    failed = true;
    snprintf(message, message_size, "something was written around %s of %zu bytes", what.c_str(), each.bytes);
  };
  check_around("shared memory", memory);
  for (const Argument& each : arguments) check_around("argument " + std::to_string(each.number), each.copy);
  for (const Argument& each : arguments)
    if (!failed) memcpy(each.original, each.copy.begin, each.copy.bytes);
  arguments.clear();
  return !failed;
}
