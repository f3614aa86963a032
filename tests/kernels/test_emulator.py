"""The emulator on which kernels in CUDA C++ are tested."""

from __future__ import annotations

import pytest
import torch
from emulated import KernelError, emulated, needs_compiler

pytestmark = needs_compiler


SMALL = """
#include "warp.cuh"
KERNEL(64, 1) reverses(float* to, int waits) {
  SHARED(memory);
  float* all = reinterpret_cast<float*>(memory);
  all[threadIdx.x] = threadIdx.x;
  if (waits) block_together();
  to[threadIdx.x] = all[63 - threadIdx.x];
}
KERNEL(64, 1) copies(float* to, int waits, const float* from) {
  SHARED(memory);
  copy<4>(memory + 4 * threadIdx.x, from + threadIdx.x, threadIdx.x < 60);
  copies_begun();
  if (waits) copies_done<0>();
  to[threadIdx.x] = reinterpret_cast<float*>(memory)[threadIdx.x];
}
KERNEL(64, 1) parts_lanes(float* to) { if (threadIdx.x == 5) anywhere(true); }
KERNEL(64, 1) parts_warps(float* to) { if (threadIdx.x < 32) block_together(); }
KERNEL(64, 1) leaves_shared_memory(float* to) { SHARED(memory); memory[threadIdx.x * 4 + 16] = 1; }
KERNEL(64, 1) leaves_its_argument(float* to) { to[threadIdx.x + 1] = 1; }
KERNEL(64, 1) writes_behind_its_argument(float* to, int, int* few) { few[threadIdx.x % 4] = 1; }
KERNEL(64, 1) misaligns(float* to) { SHARED(memory); Word words[4]; load4(words, memory + 8); }
KERNEL(32, 1) matrices(const Word* a, const Word* b, float* a_times_b, Word* others) {
  SHARED(memory);
  int lane = threadIdx.x;
  for (int i = lane; i < 192; i += 32) reinterpret_cast<Word*>(memory)[i] = i < 128 ? a[i] : b[i - 128];
  block_together();
  Word left[4], right[4];
  load4(left, memory + lane % 16 * 32 + lane / 16 * 16);
  load4_turned(right, memory + 512 + lane % 16 * 16);
  float d[4] = {1, 1, 1, 1};
  multiply(d, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) a_times_b[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = d[i];
  others[lane] = turned(left[0]);
  others[32 + lane] = nonzero(a[lane]);
  others[64 + lane] = product(a[lane], b[lane]);
  others[96 + lane] = packed(d[0], d[1]);
}
"""


def test_the_emulator_shows_what_lacks_a_barrier():
    small, came, source = emulated(SMALL), torch.zeros(64), torch.arange(1.0, 65)
    for waits in (1, 0):
        small.launch("reverses", (1, 1), 64, 256, came, waits)
        assert torch.equal(came, torch.arange(63.0, -1, -1)) == waits
        assert came[:32].isnan().all() == (not waits)
        small.launch("copies", (1, 1), 64, 256, came, waits, source)
        assert torch.equal(came, source * (source <= 60)) == waits
        assert came.isnan().all() == (not waits)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("parts_lanes", "lanes of a warp part"),
        ("parts_warps", "warp 0 waits at block_together in line .*, warp 1 has ended"),
        ("leaves_shared_memory", "byte 256 of shared memory of 256"),
        ("leaves_its_argument", "byte 256 of argument 0 of 256"),
        ("writes_behind_its_argument", "written around argument 2 of 12 bytes"),
        ("misaligns", "not aligned to 16 bytes"),
    ],
)
def test_the_emulator_refuses(name, why):
    came = torch.zeros(64)
    with pytest.raises(KernelError, match=why):
        emulated(SMALL).launch(name, (1, 1), 64, 256, came, 0, torch.zeros(3))
    assert not came.any()


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_the_emulators_matrices_are_the_librarys(low):
    left, right = torch.randn(16, 16).to(low), torch.randn(16, 8).to(low)
    left[0, :4] = torch.tensor([0.0, -0.0, torch.nan, 1e-40 if low == torch.bfloat16 else 3e-7])
    left[1:3] *= 1e-4
    product, others = torch.zeros(16, 8), torch.zeros(4, 64, dtype=low)
    emulated(SMALL, {"HALF": int(low == torch.float16)}).launch(
        "matrices", (1, 1), 32, 768, left, right, product, others
    )
    torch.testing.assert_close(product, 1 + left.float() @ right.float(), equal_nan=True)
    turned, nonzero, products, rounded = others
    torch.testing.assert_close(turned, left[:8, :8].T.flatten(), rtol=0, atol=0, equal_nan=True)
    first, second = left.flatten()[:64], right.flatten()[:64]
    assert torch.equal(nonzero.view(torch.int16) == -1, (first != 0) & ~first.isnan())
    torch.testing.assert_close(products, first * second, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(rounded, product[:8].flatten().to(low), rtol=0, atol=0, equal_nan=True)
