"""All weights as one tensor: the module computes with it, and gradients gather in it."""

import pytest
import torch
from torch import nn

from dree.errors import DreeError
from dree.lifelong.flat import FlatParameters


def network():
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2, bias=False))


def test_the_modules_parameters_are_parts_of_it_with_their_values():
    module = network()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    flat = FlatParameters(module)
    torch.testing.assert_close([*module.parameters()], before)
    flat.weights.data.mul_(2)
    torch.testing.assert_close([*module.parameters()], [2 * each for each in before])


def test_gradients_gather_in_it_until_it_is_cleared():
    module, x = network(), torch.randn(4, 3)
    expected = torch.autograd.grad(module(x).square().sum(), [*module.parameters()])
    flat = FlatParameters(module)
    for times in (1, 2):
        module(x).square().sum().backward()
        torch.testing.assert_close(flat.views(flat.weights.grad), [times * each for each in expected])
    flat.clear_gradient()
    assert not flat.weights.grad.any()
    assert not any(parameter.grad.any() for parameter in module.parameters())


def test_a_step_of_the_optimiser_on_it_is_one_on_the_parameters():
    x, one, other = torch.randn(4, 3), network(), network()
    other.load_state_dict(one.state_dict())
    flat = FlatParameters(other)
    for module, weights in ((one, [*one.parameters()]), (other, [flat.weights])):
        adam = torch.optim.Adam(weights, lr=0.1, weight_decay=0.01)
        for _ in range(3):
            module.zero_grad(set_to_none=False)
            module(x).square().sum().backward()
            adam.step()
    torch.testing.assert_close(other.state_dict(), one.state_dict())


def test_tensors_are_gathered_whatever_their_layout():
    module = network()
    flat = FlatParameters(module)
    tensors = [torch.randn(5, 3), torch.randn(5), torch.randn(5, 2).T]
    target = torch.zeros_like(flat.weights)
    flat.gather(tensors, target)
    torch.testing.assert_close(flat.views(target), tensors)
    assert target.sum().isclose(sum(each.sum() for each in tensors))


def test_the_gradient_of_a_value_is_zero_for_what_it_does_not_depend_on():
    module, x = network(), torch.randn(4, 3)
    flat = FlatParameters(module)
    expected = torch.autograd.grad(module[0](x).square().sum(), [*module[0].parameters()])
    module(x).sum().backward()  # what has gathered before is no part of it
    *first, last = flat.views(flat.gradient_of(module[0](x).square().sum()))
    torch.testing.assert_close(first, list(expected))
    assert not last.any()


@pytest.mark.parametrize(
    "part", [lambda module: module.double().float(), lambda module: module.zero_grad(), FlatParameters]
)
def test_weights_that_have_parted_from_it_are_noticed(part):
    module = network()
    flat = FlatParameters(module)
    part(module)
    with pytest.raises(DreeError, match="no longer those its learner was made with"):
        flat.clear_gradient()
