"""Vectors for Numba: several numbers that one instruction works on.

Numba leaves it to the compiler to find numbers that may be worked on together, and where arrays might overlap it finds
few. A `Vector` says so. It has any number of lanes; the compiler cuts it into what the processor has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # in any order; but what is not a number stays so
EXPONENTIAL = (1.9875692e-4, 1.3981999e-3, 8.3334519e-3, 4.1665796e-2, 1.6666665e-1, 0.50000001, 1.0, 1.0)

WHOLE = 1.5 * 2**23  # a number that is added to others of single precision has their nearest integers in its last bits


class Vector(types.Type):
    """Numbers in single precision, side by side."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Vector({lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, _llvm(vector.lanes))


def _llvm(lanes: int, of: Any = None) -> Any:
    return ir.VectorType(of or ir.FloatType(), lanes)


def _constant(lanes: int, value: float, of: Any = None) -> Any:
    return ir.Constant(_llvm(lanes, of), [value] * lanes)


def _lanes_of(builder: Any, vector: Any, lanes: list[int]) -> Any:
    """A vector of some lanes of another."""
    return builder.shuffle_vector(vector, vector, ir.Constant(_llvm(len(lanes), ir.IntType(32)), lanes))


def _address(context: Any, builder: Any, array_type: Any, array: Any, start: Any, lanes: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), _llvm(lanes).as_pointer())


@intrinsic(prefer_literal=True)
def load(_, array, start, lanes):
    """The numbers of a contiguous array from a place on, counted through all its dimensions."""

    def generate(context, builder, signature, values):
        where = _address(context, builder, signature.args[0], values[0], values[1], lanes.literal_value)
        return builder.load(where, align=4)

    return Vector(lanes.literal_value)(array, types.intp, lanes), generate


@intrinsic
def store(_, array, start, vector):
    """Put numbers into a contiguous array."""

    def generate(context, builder, signature, values):
        where = _address(context, builder, signature.args[0], values[0], values[1], vector.lanes)
        builder.store(values[2], where, align=4)
        return context.get_dummy_value()

    return types.none(array, types.intp, vector), generate


@intrinsic(prefer_literal=True)
def splat(_, number, lanes):
    """The same number in every lane."""

    def generate(context, builder, signature, values):
        alone = builder.insert_element(ir.Constant(_llvm(1), ir.Undefined), values[0], ir.IntType(32)(0))
        return _lanes_of(builder, alone, [0] * lanes.literal_value)

    return Vector(lanes.literal_value)(types.float32, lanes), generate


@intrinsic(prefer_literal=True)
def repeat(_, vector, lanes):
    """The lanes again and again: what belongs to a head, for each of its numbers."""

    def generate(context, builder, signature, values):
        return _lanes_of(builder, values[0], [lane % vector.lanes for lane in range(lanes.literal_value)])

    return Vector(lanes.literal_value)(vector, lanes), generate


def _products(builder: Any, one: Any, other: Any, lanes: int) -> Any:
    """The products of two vectors, added up to so many lanes."""
    sums = [_constant(lanes, -0.0)] * 2  # two, so that each waits less for itself
    for start in range(0, one.type.count, lanes):
        pair = [_lanes_of(builder, each, list(range(start, start + lanes))) for each in (one, other)]
        sums = [sums[1], builder.fadd(sums[0], builder.fmul(*pair, flags=FAST), flags=FAST)]
    return builder.fadd(*sums, flags=FAST)


def _sum(builder: Any, vector: Any) -> Any:
    """The sum of all lanes."""
    kind = ir.FunctionType(ir.FloatType(), [ir.FloatType(), vector.type])
    add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{vector.type.count}f32")
    return builder.call(add, [ir.FloatType()(-0.0), vector], fastmath=FAST)


@intrinsic(prefer_literal=True)
def by_head(_, one, other, heads):
    """The opposite: the products of two vectors, added up for each head."""

    def generate(context, builder, signature, values):
        return _products(builder, values[0], values[1], heads.literal_value)

    return Vector(heads.literal_value)(one, other, heads), generate


@intrinsic
def dot(_, one, other):
    """The sum of all products of two vectors."""

    def generate(context, builder, signature, values):
        return _sum(builder, _products(builder, values[0], values[1], 32 if one.lanes % 32 == 0 else one.lanes))

    return types.float32(one, other), generate


@intrinsic
def total(_, vector):
    """The sum of all lanes."""
    return types.float32(vector), lambda context, builder, signature, values: _sum(builder, *values)


@intrinsic
def highest(_, vector):
    """The largest of all lanes."""

    def generate(context, builder, signature, values):
        kind = ir.FunctionType(ir.FloatType(), [_llvm(vector.lanes)])
        name = f"llvm.vector.reduce.fmax.v{vector.lanes}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    return types.float32(vector), generate


@intrinsic
def larger(_, one, other):
    """Of each lane the larger number; the other where one is not a number."""

    def generate(context, builder, signature, values):
        return builder.select(builder.fcmp_ordered(">", *values), *values)

    return one(one, other), generate


@intrinsic
def exp(_, vector):
    """The exponential: a power of two by its bits, times a polynomial (Cephes' expf, to 1e-7)."""
    lanes = vector.lanes

    def generate(context, builder, signature, values):
        def constant(value: float) -> Any:
            return _constant(lanes, value)

        def times_plus(x: Any, y: Any, z: Any, flags: tuple[str, ...] = FAST) -> Any:
            return builder.fadd(builder.fmul(x, y, flags=flags), z, flags=flags)

        (x,) = values
        for sign, bound in (("<", -87.0), (">", 88.0)):
            x = builder.select(builder.fcmp_ordered(sign, x, constant(bound)), constant(bound), x)
        shifted = times_plus(x, constant(1.44269504088896341), constant(WHOLE), ("contract",))
        power = builder.fsub(shifted, constant(WHOLE))
        rest = x  # what is left of it, in two parts of the logarithm of two, the order of which matters
        for part in (-0.693359375, 2.12194440e-4):
            rest = times_plus(power, constant(part), rest, ("contract",))
        result = constant(EXPONENTIAL[0])
        for factor in EXPONENTIAL[1:]:
            result = times_plus(result, rest, constant(factor))
        integer = ir.IntType(32)
        bits = builder.add(builder.bitcast(shifted, _llvm(lanes, integer)), _constant(lanes, 127, integer))
        bits = builder.shl(bits, _constant(lanes, 23, integer))
        return builder.fmul(result, builder.bitcast(bits, x.type), flags=FAST)

    return vector(vector), generate


def _operator(symbol: Callable[..., Any], instruction: str) -> None:
    @intrinsic
    def combine(_, left, right):
        def generate(context, builder, signature, values):
            return getattr(builder, instruction)(*values, flags=FAST)

        return left(left, right), generate

    @overload(symbol)
    def of_vectors(left, right):
        if isinstance(left, Vector) and left == right:
            return lambda left, right: combine(left, right)
        return None


for _symbol, _instruction in {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}.items():
    _operator(getattr(operator, _symbol), _instruction)
